-- The tables as the program of this version wants them. Databases are made by the steps in migrations/; a test proves
-- that all of them in order give exactly this.

-- A subnet that is stale has no ranges: they are calculated when the next address is asked for.
CREATE TABLE gantry_subnets (
    id TEXT NOT NULL PRIMARY KEY,
    cidr TEXT NOT NULL,
    gateway TEXT NOT NULL,
    stale BOOLEAN NOT NULL
);

-- What may be handed out. Ranges that do not overlap are in the order of their ends as well as of their beginnings.
CREATE TABLE gantry_pools (
    subnet TEXT NOT NULL,
    first TEXT COLLATE "C" NOT NULL,
    last TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (subnet, last),
    CHECK (first <= last)
);

-- What is free: pools without allocations. Addresses are taken from the beginning, so no index changes with them.
CREATE TABLE gantry_ranges (
    subnet TEXT NOT NULL,
    first TEXT COLLATE "C" NOT NULL,
    last TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (subnet, last),
    CHECK (first <= last)
);

-- What is taken. When it was made is for people: no statement reads it.
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

-- The steps that were applied.
CREATE TABLE gantry_migrations (
    name TEXT NOT NULL PRIMARY KEY
);
