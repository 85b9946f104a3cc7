use crate::{Reason, TargetView};
use bstr::BStr;
use refdb_types::ObjectId;

/// Whether a ref's value allows an edit.
pub(super) enum Decision {
    Allowed,
    /// It does not, and git says "cannot lock ref 'NAME': " and this.
    CannotLock(Reason, String),
    /// It does not, and git says just this.
    Refused(Reason, String),
}

/// What an edit expects of a ref.
#[derive(Clone, Copy, Debug)]
pub(super) enum Expects<'a> {
    Anything,
    Something,
    Nothing,
    /// This value; or nothing, if the flag is set.
    Value(TargetView<'a>, bool),
}

/// A ref under the lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Current<'a> {
    /// The ref that changes.
    pub(super) name: &'a BStr,
    /// The ref as the caller named it.
    pub(super) given: &'a BStr,
    pub(super) value: Option<TargetView<'a>>,
    /// The object that the value leads to, if it does.
    pub(super) resolved: Option<ObjectId>,
}

/// Holds what a ref is against what an edit expects it to be.
pub(super) fn decide(current: Current<'_>, expects: Expects<'_>) -> Decision {
    let Current { name, given, value, resolved } = current;
    let unable = || Decision::CannotLock(Reason::NonexistentRef, format!("unable to resolve reference '{name}'"));
    match (expects, value) {
        (Expects::Anything, _) | (Expects::Something, Some(_)) | (Expects::Nothing, None) => Decision::Allowed,
        (Expects::Value(_, true), None) => Decision::Allowed,
        // Git takes the null id for no value, wherever it stands.
        (Expects::Nothing, Some(TargetView::Direct(id))) if id.is_null() => Decision::Allowed,
        (Expects::Something | Expects::Value(_, false), None) => unable(),
        (Expects::Nothing, Some(_)) => {
            let what = if resolved.is_some() { "reference" } else { "dangling symref" };
            Decision::CannotLock(Reason::CreateExists, format!("{what} already exists"))
        }
        (Expects::Value(TargetView::Direct(expected), _), Some(_)) => match resolved {
            Some(actual) if actual == expected => Decision::Allowed,
            Some(actual) => {
                Decision::CannotLock(Reason::IncorrectOldValue, format!("is at {actual} but expected {expected}"))
            }
            None => {
                Decision::CannotLock(Reason::NonexistentRef, format!("reference is missing but expected {expected}"))
            }
        },
        (Expects::Value(TargetView::Symbolic(expected), _), Some(TargetView::Direct(_))) => Decision::CannotLock(
            Reason::ExpectedSymref,
            format!("expected symref with target '{expected}': but is a regular ref"),
        ),
        (Expects::Value(TargetView::Symbolic(expected), _), Some(TargetView::Symbolic(actual))) => {
            if actual == expected {
                Decision::Allowed
            } else {
                let text = format!("verifying symref target: '{given}': is at {actual} but expected {expected}");
                Decision::Refused(Reason::IncorrectOldValue, text)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use refdb_types::HashKind;

    fn said(value: Option<TargetView<'_>>, resolved: Option<ObjectId>, expects: Expects<'_>) -> Option<String> {
        let current = Current { name: "refs/heads/x".into(), given: "HEAD".into(), value, resolved };
        match decide(current, expects) {
            Decision::Allowed => None,
            Decision::CannotLock(_, text) | Decision::Refused(_, text) => Some(text),
        }
    }

    #[test]
    fn every_precondition_meets_every_kind_of_value() {
        let [a, b] = [1u8, 2].map(|byte| ObjectId::from_bytes(HashKind::Sha1, &[byte; 20]).unwrap());
        let (main, other) =
            (TargetView::Symbolic("refs/heads/main".into()), TargetView::Symbolic("refs/heads/o".into()));
        let (direct, dangling, leading) = (Some(TargetView::Direct(a)), (Some(main), None), (Some(main), Some(a)));
        let unable = "unable to resolve reference 'refs/heads/x'";
        let exists = "reference already exists";
        let wrong = format!("is at {a} but expected {b}");
        let missing = format!("reference is missing but expected {a}");
        let symref = "expected symref with target 'refs/heads/main': but is a regular ref";
        let elsewhere = "verifying symref target: 'HEAD': is at refs/heads/main but expected refs/heads/o";
        let direct = (direct, Some(a));
        for (expects, state, text) in [
            (Expects::Anything, (None, None), None),
            (Expects::Anything, direct, None),
            (Expects::Something, (None, None), Some(unable)),
            (Expects::Something, dangling, None),
            (Expects::Nothing, (None, None), None),
            (Expects::Nothing, direct, Some(exists)),
            (Expects::Nothing, leading, Some(exists)),
            (Expects::Nothing, dangling, Some("dangling symref already exists")),
            (Expects::Value(TargetView::Direct(a), false), (None, None), Some(unable)),
            (Expects::Value(TargetView::Direct(a), true), (None, None), None),
            (Expects::Value(TargetView::Direct(a), false), direct, None),
            (Expects::Value(TargetView::Direct(a), false), leading, None),
            (Expects::Value(TargetView::Direct(a), false), dangling, Some(&missing)),
            (Expects::Value(TargetView::Direct(b), true), direct, Some(&wrong)),
            (Expects::Value(main, false), (None, None), Some(unable)),
            (Expects::Value(main, false), direct, Some(symref)),
            (Expects::Value(main, false), dangling, None),
            (Expects::Value(other, false), leading, Some(elsewhere)),
        ] {
            assert_eq!(said(state.0, state.1, expects).as_deref(), text, "{expects:?} {state:?}");
        }
    }
}
