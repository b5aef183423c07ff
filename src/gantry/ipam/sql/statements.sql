-- All statements of the driver, for both engines. statements.py removes the locks for SQLite, which has one writer at a
-- time. Compare-and-set statements have a comment.

-- name: pick
-- Returns the owner's address if it has one, else a range of free addresses at or after the worker's position, else the
-- lowest range. Three index look-ups, however full the subnet is.
SELECT turn, first, last FROM (
    SELECT '0' AS turn, address AS first, address AS last FROM gantry_allocations
     WHERE subnet = :subnet AND owner = :owner AND key = :key AND owner <> ''
    UNION ALL
    SELECT '1', first, last FROM (
        SELECT first, last FROM gantry_ranges
         WHERE subnet = :subnet AND last >= :start ORDER BY last LIMIT 1 OFFSET :skip
    ) AS onward
    UNION ALL
    SELECT '2', first, last FROM (
        SELECT first, last FROM gantry_ranges WHERE subnet = :subnet ORDER BY last LIMIT 1
    ) AS lowest
) AS found ORDER BY turn LIMIT 1

-- name: shorten
-- Compare-and-set: only if no other transaction has changed the range since it was read.
UPDATE gantry_ranges SET first = :next WHERE subnet = :subnet AND last = :last AND first = :first

-- name: use_up
-- Compare-and-set, as above, for a range with one address.
DELETE FROM gantry_ranges WHERE subnet = :subnet AND last = :last AND first = :first

-- name: enter
-- The primary key prevents a double allocation. Waits for transactions that allocate or release the address.
INSERT INTO gantry_allocations (subnet, address, owner, key) VALUES (:subnet, :address, :owner, :key)
ON CONFLICT DO NOTHING

-- name: leave
DELETE FROM gantry_allocations WHERE subnet = :subnet AND address = :address AND (:owner = '' OR owner = :owner)

-- name: leave_surplus
DELETE FROM gantry_allocations WHERE subnet = :subnet AND address = :address AND owner = :owner AND key = :key

-- name: give
-- Returns an address to the ranges if a pool has it and it is not allocated. A stale subnet has no ranges.
INSERT INTO gantry_ranges (subnet, first, last)
SELECT :subnet, :address, :address FROM gantry_subnets
 WHERE id = :subnet AND NOT stale
   AND EXISTS (SELECT 1 FROM gantry_pools WHERE subnet = :subnet AND first <= :address AND last >= :address)
   AND NOT EXISTS (SELECT 1 FROM gantry_allocations WHERE subnet = :subnet AND address = :address)
ON CONFLICT DO NOTHING

-- name: upcoming
-- Each range has at least one address, so :count ranges have enough addresses.
SELECT first, last FROM gantry_ranges WHERE subnet = :subnet AND last >= :start ORDER BY last LIMIT :count OFFSET :skip

-- name: take_all
-- Removes and returns all ranges between two positions.
DELETE FROM gantry_ranges WHERE subnet = :subnet AND last >= :start AND last <= :end RETURNING first, last

-- name: share
-- Transactions that add ranges, or allocate without a range, lock out changes of the pools.
SELECT cidr FROM gantry_subnets WHERE id = :subnet FOR SHARE

-- name: lock
SELECT id, cidr, gateway, CASE WHEN stale THEN 'yes' ELSE '' END FROM gantry_subnets WHERE id = :subnet FOR UPDATE

-- name: mark_stale
UPDATE gantry_subnets SET stale = TRUE WHERE id = :subnet

-- name: mark_fresh
UPDATE gantry_subnets SET stale = FALSE WHERE id = :subnet

-- name: subnet
SELECT id, cidr, gateway, CASE WHEN stale THEN 'yes' ELSE '' END FROM gantry_subnets WHERE id = :subnet

-- name: subnets
SELECT id, cidr, gateway, CASE WHEN stale THEN 'yes' ELSE '' END FROM gantry_subnets ORDER BY id

-- name: pools
SELECT first, last FROM gantry_pools WHERE subnet = :subnet ORDER BY last

-- name: bounds
SELECT MIN(first), MAX(last) FROM gantry_pools WHERE subnet = :subnet

-- name: ranges
SELECT first, last FROM gantry_ranges WHERE subnet = :subnet ORDER BY last

-- name: pool_of
SELECT first, last FROM gantry_pools WHERE subnet = :subnet AND first <= :address AND last >= :address

-- name: range_of
SELECT first, last FROM (
    SELECT first, last FROM gantry_ranges WHERE subnet = :subnet AND last >= :address ORDER BY last LIMIT 1
) AS onward WHERE first <= :address

-- name: holder
SELECT owner, key FROM gantry_allocations WHERE subnet = :subnet AND address = :address

-- name: any_allocation
SELECT address, owner FROM gantry_allocations WHERE subnet = :subnet ORDER BY address LIMIT 1

-- name: allocations
SELECT address, owner, key FROM gantry_allocations WHERE subnet = :subnet ORDER BY address

-- name: allocations_from
SELECT address, owner, key FROM gantry_allocations
 WHERE subnet = :subnet AND address >= :start ORDER BY address LIMIT :count

-- name: everything
SELECT subnet, address, owner, key FROM gantry_allocations ORDER BY subnet, address

-- name: owned
SELECT subnet, address, key FROM gantry_allocations
 WHERE owner = :owner AND owner <> '' ORDER BY subnet, address

-- name: add_subnet
INSERT INTO gantry_subnets (id, cidr, gateway, stale) VALUES (:subnet, :cidr, :gateway, TRUE) ON CONFLICT DO NOTHING

-- name: change_subnet
UPDATE gantry_subnets SET cidr = :cidr, gateway = :gateway WHERE id = :subnet

-- name: remove_subnet
DELETE FROM gantry_subnets WHERE id = :subnet

-- name: add_pool
INSERT INTO gantry_pools (subnet, first, last) VALUES (:subnet, :first, :last)

-- name: remove_pools
DELETE FROM gantry_pools WHERE subnet = :subnet

-- name: add_range
INSERT INTO gantry_ranges (subnet, first, last) VALUES (:subnet, :first, :last)

-- name: remove_ranges
DELETE FROM gantry_ranges WHERE subnet = :subnet

-- name: master
SELECT CAST(epoch AS TEXT), node FROM gantry_masters WHERE mark = :mark

-- name: share_master
-- Waits for a master that is being recorded, and lets none be recorded before the end of the transaction. So that a
-- master that stands still in a transaction does not stop its successor for ever, the server ends such transactions.
SELECT CAST(epoch AS TEXT), node, set_config('idle_in_transaction_session_timeout', '30s', TRUE)
  FROM gantry_masters WHERE mark = :mark FOR SHARE

-- name: record_master
-- Compare-and-set, and waits for the transactions that share the row.
INSERT INTO gantry_masters (mark, epoch, node) VALUES (:mark, :epoch, :node)
ON CONFLICT (mark) DO UPDATE SET epoch = excluded.epoch, node = excluded.node
 WHERE gantry_masters.epoch < excluded.epoch OR :force = 1

-- name: snapshot
-- The transaction reads from one snapshot; SQLite always does.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY

-- name: alone
-- Only one process at a time creates tables; SQLite has one writer anyway.
SELECT 'alone' FROM pg_advisory_xact_lock(7030918253)

-- name: steps_of_postgresql
SELECT tablename FROM pg_tables WHERE schemaname = ANY (current_schemas(FALSE)) AND tablename = 'gantry_migrations'

-- name: steps_of_sqlite
SELECT name FROM sqlite_master WHERE type = 'table' AND name = 'gantry_migrations'

-- name: applied
SELECT name FROM gantry_migrations ORDER BY name

-- name: apply
INSERT INTO gantry_migrations (name) VALUES (:name)
