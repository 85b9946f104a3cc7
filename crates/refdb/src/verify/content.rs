//! Checks what a symbolic ref leads to.

use super::{Check, Verifier};
use bstr::{BStr, BString};
use refdb_types::{FormatOptions, check_format, is_root_ref};

/// Checks the target of the symbolic ref that its worktree calls `name`.
pub(super) fn verify_target(verifier: &mut Verifier<'_>, place: &BStr, name: &BStr, target: &BStr) {
    let quoted = |text: &str| BString::from([text.as_bytes(), b" '", target, b"'"].concat());
    if !is_root_ref(target) {
        if check_format(target, FormatOptions::default()).is_err() {
            return verifier.fault(place, Check::BadReferentName, quoted("points to invalid refname"));
        }
        if !target.starts_with(b"refs/") && !target.starts_with(b"worktrees/") {
            verifier.fault(place, Check::SymrefTargetIsNotARef, quoted("points to non-ref target"));
        }
    }
    if name == "HEAD" && !target.starts_with(b"refs/heads/") {
        verifier.fault(place, Check::BadHeadTarget, quoted("HEAD points to non-branch"));
    }
}
