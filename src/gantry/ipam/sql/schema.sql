-- The tables that this version of the program uses. The steps in migrations/ create databases; a test proves that all
-- steps in order result in exactly this schema.

-- A stale subnet has no ranges: the next request for an address calculates them.
CREATE TABLE gantry_subnets (
    id TEXT NOT NULL PRIMARY KEY,
    cidr TEXT NOT NULL,
    gateway TEXT NOT NULL,
    stale BOOLEAN NOT NULL
);

-- The allocatable addresses. As the ranges do not overlap, the order by last is also the order by first.
CREATE TABLE gantry_pools (
    subnet TEXT NOT NULL,
    first TEXT COLLATE "C" NOT NULL,
    last TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (subnet, last),
    CHECK (first <= last)
);

-- The free addresses: pools without allocations. Allocation changes only the first address, so no index changes.
CREATE TABLE gantry_ranges (
    subnet TEXT NOT NULL,
    first TEXT COLLATE "C" NOT NULL,
    last TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (subnet, last),
    CHECK (first <= last)
);

-- The allocated addresses. The time "made" is for administrators: no statement reads it.
CREATE TABLE gantry_allocations (
    subnet TEXT NOT NULL,
    address TEXT COLLATE "C" NOT NULL,
    owner TEXT NOT NULL,
    key TEXT NOT NULL,
    made TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (subnet, address)
);

-- An owner has one address for each of its keys.
CREATE UNIQUE INDEX gantry_allocations_owner ON gantry_allocations (owner, subnet, key) WHERE owner <> '';

-- The latest master of each cluster that has worked on this database: its epoch, and its node (fence.py).
CREATE TABLE gantry_masters (
    mark TEXT NOT NULL PRIMARY KEY,
    epoch BIGINT NOT NULL,
    node TEXT NOT NULL
);

-- The applied steps.
CREATE TABLE gantry_migrations (
    name TEXT NOT NULL PRIMARY KEY
);
