use crate::{TargetView, Why};
use refdb_types::ObjectId;

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
    pub(super) value: Option<TargetView<'a>>,
    /// The object that the value leads to, if it does.
    pub(super) resolved: Option<ObjectId>,
}

/// Holds a ref against what an edit expects of it. Returns what forbids the edit.
pub(super) fn decide(current: Current<'_>, expects: Expects<'_>) -> Option<Why> {
    let Current { value, resolved } = current;
    debug_assert!(value.is_some() || resolved.is_none(), "a missing ref leads nowhere");
    debug_assert!(
        !matches!(value, Some(TargetView::Direct(id)) if resolved.is_some_and(|resolved| resolved != id)),
        "an object's id leads to that object"
    );
    let mismatch = |expected: TargetView<'_>, actual: Option<TargetView<'_>>| {
        let expected = expected.to_target().expect("what an edit expects was a name when it came in");
        Some(Why::Mismatch { expected, actual: actual.and_then(TargetView::to_target) })
    };
    match (expects, value) {
        (Expects::Anything, _) | (Expects::Something, Some(_)) | (Expects::Nothing, None) => None,
        (Expects::Value(_, true), None) => None,
        // Git takes the null id for no value, wherever it stands.
        (Expects::Nothing, Some(TargetView::Direct(id))) if id.is_null() => None,
        (Expects::Something | Expects::Value(_, false), None) => Some(Why::Missing),
        (Expects::Nothing, Some(_)) => Some(Why::Exists { is_dangling: resolved.is_none() }),
        (Expects::Value(expected @ TargetView::Direct(_), _), Some(_)) => match resolved.map(TargetView::Direct) {
            Some(found) if found == expected => None,
            found => mismatch(expected, found),
        },
        (Expects::Value(expected, _), Some(actual)) if expected == actual => None,
        (Expects::Value(expected, _), Some(actual)) => mismatch(expected, Some(actual)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rejection;
    use refdb_types::{HashKind, RefName};

    fn said(value: Option<TargetView<'_>>, resolved: Option<ObjectId>, expects: Expects<'_>) -> Option<String> {
        let [given, resolved_name] = ["HEAD", "refs/heads/x"].map(|name| RefName::new(name).unwrap());
        let why = decide(Current { value, resolved }, expects)?;
        let text = Rejection { given, resolved: resolved_name, why }.to_string();
        Some(text.strip_prefix("cannot lock ref 'HEAD': ").unwrap_or(&text).to_owned())
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
