use crate::{Precondition, RejectionReason, TargetView};
use refdb_types::ObjectId;

/// The state of a ref under its lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Current<'a> {
    pub(super) value: Option<TargetView<'a>>,
    /// The object that the value leads to; `None` if it leads to none.
    pub(super) resolved: Option<ObjectId>,
}

/// Compares a ref with what an edit expects, and returns why the edit is refused, if it is.
pub(super) fn decide(current: Current<'_>, expects: Precondition<TargetView<'_>>) -> Option<RejectionReason> {
    use Precondition::{Any, ExistingMustMatch, MustExist, MustMatch, MustNotExist};
    let Current { value, resolved } = current;
    debug_assert!(value.is_some() || resolved.is_none(), "a missing ref leads nowhere");
    debug_assert!(
        !matches!(value, Some(TargetView::Direct(id)) if resolved.is_some_and(|resolved| resolved != id)),
        "an object's id leads to that object"
    );
    let mismatch = |expected: TargetView<'_>, actual: Option<TargetView<'_>>| {
        let expected = expected.to_target().expect("what an edit expects was a name when it came in");
        Some(RejectionReason::Mismatch { expected, actual: actual.and_then(TargetView::to_target) })
    };
    match (expects, value) {
        (Any, _) | (MustExist, Some(_)) | (MustNotExist | ExistingMustMatch(_), None) => None,
        // git treats a null id as no value, even in a ref.
        (MustNotExist, Some(TargetView::Direct(id))) if id.is_null() => None,
        (MustExist | MustMatch(_), None) => Some(RejectionReason::Missing),
        (MustNotExist, Some(_)) => Some(RejectionReason::Exists { is_dangling: resolved.is_none() }),
        (MustMatch(expected) | ExistingMustMatch(expected), Some(actual)) => {
            let found = match expected {
                TargetView::Direct(_) => resolved.map(TargetView::Direct),
                TargetView::Symbolic(_) => Some(actual),
            };
            if found == Some(expected) { None } else { mismatch(expected, found) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rejection;
    use refdb_types::{HashKind, RefName};

    fn said(
        value: Option<TargetView<'_>>,
        resolved: Option<ObjectId>,
        expects: Precondition<TargetView<'_>>,
    ) -> Option<String> {
        let [given, resolved_name] = ["HEAD", "refs/heads/x"].map(|name| RefName::new(name).unwrap());
        let why = decide(Current { value, resolved }, expects)?;
        let text = Rejection { given, resolved: resolved_name, reason: why }.to_string();
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
            (Precondition::Any, (None, None), None),
            (Precondition::Any, direct, None),
            (Precondition::MustExist, (None, None), Some(unable)),
            (Precondition::MustExist, dangling, None),
            (Precondition::MustNotExist, (None, None), None),
            (Precondition::MustNotExist, direct, Some(exists)),
            (Precondition::MustNotExist, leading, Some(exists)),
            (Precondition::MustNotExist, dangling, Some("dangling symref already exists")),
            (Precondition::MustMatch(TargetView::Direct(a)), (None, None), Some(unable)),
            (Precondition::ExistingMustMatch(TargetView::Direct(a)), (None, None), None),
            (Precondition::MustMatch(TargetView::Direct(a)), direct, None),
            (Precondition::MustMatch(TargetView::Direct(a)), leading, None),
            (Precondition::MustMatch(TargetView::Direct(a)), dangling, Some(&missing)),
            (Precondition::ExistingMustMatch(TargetView::Direct(b)), direct, Some(&wrong)),
            (Precondition::MustMatch(main), (None, None), Some(unable)),
            (Precondition::MustMatch(main), direct, Some(symref)),
            (Precondition::MustMatch(main), dangling, None),
            (Precondition::MustMatch(other), leading, Some(elsewhere)),
        ] {
            assert_eq!(said(state.0, state.1, expects).as_deref(), text, "{expects:?} {state:?}");
        }
    }
}
