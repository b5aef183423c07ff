"""Units that add and remove access rules (``model.access``).

Both take one lock of the configuration, so two administrators at once do not add a rule twice; they wait for no job
about an object. Rules count from the next request on, and for each opcode that begins after them.
"""

from gantry import errors
from gantry.model import access, opcodes
from gantry.operations import base, config_part
from gantry.operations.access import scopes
from gantry.state.objects import snapshot as states

LIMIT = 10_000
"""The maximum number of rules: a checkpoint writes all of them."""


class AccessAdd(config_part.Change[opcodes.AccessAdd]):
    """Adds a rule."""

    OPCODE = opcodes.AccessAdd
    PART = "access"

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Put the rule, unless it exists; the result says how many objects have a tag or project now."""
        del facts
        op, inputs = self.op, self.environment.inputs
        if not op.who.isprintable():
            raise errors.InvalidError(f"{op.who!r} has a character that cannot be printed")
        role = access.Role(op.role)
        scope, uuid = scopes.parse(snapshot, op.on)
        scopes.check_meaning(role, scope)
        title = f"{role} on {scopes.title(snapshot, scope, uuid)}"
        rule = access.Rule(
            uuid=inputs.uuid(),
            name=op.who,
            role=role,
            scope=scope,
            object=uuid,
            ctime=inputs.now,
            mtime=inputs.now,
        )
        is_known = any(each.role is role for each in _rules(snapshot, op.who) if each.key == rule.key)
        if not is_known and len(snapshot.accessrules) >= LIMIT:
            raise errors.NoRoomError(
                f"the cluster has {LIMIT} access rules, the maximum", hint="give a group or a tag a role instead"
            )
        numbers = scopes.numbers(snapshot, rule.key) if scope in (access.Scope.TAG, access.Scope.PROJECT) else None
        return base.Plan(
            lines=[f"nothing changes: {op.who} is {title} already" if is_known else f"make {op.who} {title}"],
            changes=[] if is_known else [states.Put(rule)],
            result=lambda: numbers,
        )


class AccessRemove(config_part.Change[opcodes.AccessRemove]):
    """Removes rules."""

    OPCODE = opcodes.AccessRemove
    PART = "access"

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Delete the rules that match; NotFoundError if there is none."""
        del facts
        op = self.op
        named = scopes.parse(snapshot, op.on) if op.on else None
        matching_rules = [
            rule
            for rule in _rules(snapshot, op.who)
            if op.role in (None, rule.role.value) and named in (None, (rule.scope, rule.object))
        ]
        if not matching_rules:
            raise errors.NotFoundError(
                f"{op.who} has no such access rule", hint=f"gnt-cluster access list shows the rules of {op.who}"
            )
        return base.Plan(
            lines=[
                f"{op.who} is no longer {rule.role} on {scopes.title(snapshot, rule.scope, rule.object)}"
                for rule in matching_rules
            ],
            changes=[states.Delete("accessrules", rule.uuid) for rule in matching_rules],
        )


def _rules(snapshot: states.Snapshot, who: str) -> list[access.Rule]:
    """Return the rules of a user or group."""
    return sorted((snapshot.accessrules[uuid] for uuid in snapshot.rules_of.get(who) or ()), key=lambda rule: rule.uuid)
