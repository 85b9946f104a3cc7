//! Splits names of objects by the syntax of gitrevisions(7), without reading refs or objects.

use bstr::{BStr, ByteSlice};
use refdb_repo::objects::ObjectKind;

/// What a peeling suffix such as `^{commit}` asks for.
#[derive(Clone, Copy)]
pub(super) enum PeelTo {
    Object,
    NoTag,
    Kind(ObjectKind),
}

/// Splits `REVISION:PATH`. A colon in braces belongs to the revision.
pub(super) fn split_path(text: &BStr) -> Option<(&BStr, &BStr)> {
    let mut depth = 0u32;
    let at = text.iter().position(|byte| {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        *byte == b':' && depth == 0
    })?;
    Some((text[..at].as_bstr(), text[at + 1..].as_bstr()))
}

/// Splits `BASE^`, `BASE^2`, `BASE~` or `BASE~3` into the base, the mark and the number.
pub(super) fn split_ancestor(text: &BStr) -> Option<(&BStr, u8, usize)> {
    let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (head, digits) = text.split_at(text.len() - digits);
    let (mark, base) = head.split_last()?;
    if !matches!(mark, b'^' | b'~') || base.is_empty() {
        return None;
    }
    let number = if digits.is_empty() { 1 } else { digits.to_str().ok()?.parse().ok()? };
    Some((base.as_bstr(), *mark, number))
}

/// Splits a name with a peeling suffix, such as `BASE^{commit}`.
pub(super) fn split_peel(text: &BStr) -> Option<(&BStr, PeelTo)> {
    let inner = text.strip_suffix(b"}")?;
    let at = inner.rfind("^{")?;
    let to = match &inner[at + 2..] {
        b"" => PeelTo::NoTag,
        b"object" => PeelTo::Object,
        b"commit" => PeelTo::Kind(ObjectKind::Commit),
        b"tree" => PeelTo::Kind(ObjectKind::Tree),
        b"blob" => PeelTo::Kind(ObjectKind::Blob),
        b"tag" => PeelTo::Kind(ObjectKind::Tag),
        _ => return None,
    };
    Some((inner[..at].as_bstr(), to))
}

/// Splits `NAME@{INSIDE}`.
pub(super) fn split_reflog(text: &BStr) -> Option<(&BStr, &BStr)> {
    let inner = text.strip_suffix(b"}")?;
    let at = inner.rfind("@{")?;
    Some((inner[..at].as_bstr(), inner[at + 2..].as_bstr()))
}

/// The digits of `v1.0-3-gabcdef`, a name as git-describe(1) prints it.
pub(super) fn describe_digits(text: &BStr) -> Option<&BStr> {
    let at = text.rfind("-g")?;
    let digits = &text[at + 2..];
    (at > 0 && !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit)).then_some(digits.as_bstr())
}
