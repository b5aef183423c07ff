CREATE TABLE gantry_masters (
    mark TEXT NOT NULL PRIMARY KEY,
    epoch BIGINT NOT NULL,
    node TEXT NOT NULL
);
