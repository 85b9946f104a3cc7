use crate::{hidden::is_within, wire::Command};
use bstr::{BStr, BString, ByteSlice};

/// The commands that a proc-receive hook executes, as `receive.procReceiveRefs` selects them; see git-config(1).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProcReceive {
    patterns: Vec<Pattern>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Pattern {
    prefix: BString,
    creations: bool,
    deletions: bool,
    changes: bool,
    /// Whether the pattern matches the refs that are neither `prefix` nor below `prefix`, instead of those that are.
    negated: bool,
}

impl ProcReceive {
    /// Adds a value of `receive.procReceiveRefs`: a refname, which selects that ref and all refs below it. Before the
    /// name, letters and a colon may restrict the value to creations (`a`), deletions (`d`) and modifications (`m`); a
    /// `!` among the letters makes the value select all other refs instead.
    pub fn add(&mut self, value: &BStr) {
        let (kinds, prefix) = match value.split_once_str(":") {
            Some((kinds, prefix)) => (kinds, prefix),
            None => (&b"adm"[..], value.as_bytes()),
        };
        self.patterns.push(Pattern {
            prefix: prefix.trim_end_with(|c| c == '/').into(),
            creations: kinds.contains(&b'a'),
            deletions: kinds.contains(&b'd'),
            changes: kinds.contains(&b'm'),
            negated: kinds.contains(&b'!'),
        });
    }

    /// Returns whether no value was added, so that the hook executes no command.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Returns whether the hook executes `command`.
    pub fn takes(&self, command: Command<'_>) -> bool {
        self.patterns.iter().any(|pattern| {
            // A command whose ids are both null is a creation and a deletion, so the pattern needs both letters.
            let (creates, deletes) = (command.old.is_null(), command.new.is_null());
            let fits = (pattern.creations || !creates)
                && (pattern.deletions || !deletes)
                && (pattern.changes || creates || deletes);
            fits && is_within(command.name, &pattern.prefix) != pattern.negated
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use refdb_types::{HashKind, ObjectId};

    #[test]
    fn prefixes_kinds_and_negations_decide() {
        let (none, id) =
            (ObjectId::null(HashKind::Sha1), ObjectId::from_hex(HashKind::Sha1, [b'1'; 40].as_slice()).unwrap());
        let (make, change, delete) = ((none, id), (id, id), (id, none));
        for (pattern, name, kinds, wanted) in [
            ("refs/for", "refs/for/main", make, true),
            ("refs/for/", "refs/for", delete, true),
            ("refs/for", "refs/fork", make, false),
            ("ad:refs/for", "refs/for/x", change, false),
            ("ad:refs/for", "refs/for/x", delete, true),
            ("m:refs/for", "refs/for/x", make, false),
            ("m:refs/for", "refs/for/x", change, true),
            ("!adm:refs/heads", "refs/heads/x", change, false),
            ("!adm:refs/heads", "refs/for/x", change, true),
            (":refs/for", "refs/for/x", change, false),
        ] {
            let mut setting = ProcReceive::default();
            assert!(setting.is_empty());
            setting.add(pattern.into());
            let command = Command { old: kinds.0, new: kinds.1, name: name.into() };
            assert_eq!(setting.takes(command), wanted, "{pattern} {name} {kinds:?}");
        }
    }
}
