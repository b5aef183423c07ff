CREATE TABLE gantry_subnets (
    id TEXT NOT NULL PRIMARY KEY,
    cidr TEXT NOT NULL,
    gateway TEXT NOT NULL,
    stale BOOLEAN NOT NULL
);

CREATE TABLE gantry_pools (
    subnet TEXT NOT NULL,
    first TEXT COLLATE "C" NOT NULL,
    last TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (subnet, last),
    CHECK (first <= last)
);

CREATE TABLE gantry_ranges (
    subnet TEXT NOT NULL,
    first TEXT COLLATE "C" NOT NULL,
    last TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (subnet, last),
    CHECK (first <= last)
);

CREATE TABLE gantry_allocations (
    subnet TEXT NOT NULL,
    address TEXT COLLATE "C" NOT NULL,
    owner TEXT NOT NULL,
    key TEXT NOT NULL,
    made TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (subnet, address)
);

CREATE UNIQUE INDEX gantry_allocations_owner ON gantry_allocations (owner, subnet, key) WHERE owner <> '';

CREATE TABLE gantry_migrations (
    name TEXT NOT NULL PRIMARY KEY
);
