//! `%(describe:...)`: the options for git-describe(1) that follow the colon.

use crate::{
    failure::{Result, fatal},
    numbers,
};
use bstr::{BStr, BString, ByteSlice};
use refdb::config::parse_boolean;

/// Parses the options for git-describe(1) after the colon.
pub fn options(text: &[u8]) -> Result<Vec<BString>> {
    let mut options = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (word, tail) = rest.split_once_str(",").unwrap_or((rest, b""));
        let (name, value) = word.split_once_str("=").map_or((word, None), |(name, value)| (name, Some(value)));
        match name {
            b"tags" => match parse_boolean(value.map(BStr::new)) {
                Some(true) => options.push("--tags".into()),
                Some(false) => options.push("--no-tags".into()),
                // As in git, a value that is not a boolean is noticed only if nothing follows.
                None if tail.is_empty() => return unrecognized(rest),
                None => {}
            },
            b"abbrev" => options.push(abbreviation(value.unwrap_or_default(), rest)?),
            b"match" | b"exclude" => match value {
                Some(value) if !value.is_empty() => options.push([b"--", name, b"=", value].concat().into()),
                _ => return fatal!["value expected describe:", name, "="],
            },
            _ => return unrecognized(rest),
        }
        rest = tail;
    }
    Ok(options)
}

fn unrecognized<T>(rest: &[u8]) -> Result<T> {
    fatal!["unrecognized %(describe) argument: ", rest]
}

fn abbreviation(value: &[u8], rest: &[u8]) -> Result<BString> {
    if value.is_empty() {
        return fatal!["argument expected for describe:abbrev"];
    }
    match numbers::sign(value) {
        None => fatal!["cannot fully parse describe:", rest],
        Some(sign) if sign.is_lt() => fatal!["positive value expected describe:", rest],
        Some(_) => Ok([b"--abbrev=", value].concat().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;

    /// The values were taken from git 2.55.
    #[test]
    fn options_become_those_of_git_describe() {
        for (text, expected) in [
            ("", ""),
            ("tags,", "--tags"),
            ("tags=,abbrev= 5", "--no-tags --abbrev= 5"),
            ("tags=x,abbrev=3", "--abbrev=3"),
            ("match=v*,exclude=w", "--match=v* --exclude=w"),
        ] {
            assert_eq!(BString::from(bstr::join(" ", options(text.as_bytes()).unwrap())), expected, "{text}");
        }
        for (text, expected) in [
            ("tags=x", "unrecognized %(describe) argument: tags=x"),
            (",tags", "unrecognized %(describe) argument: ,tags"),
            ("tags,foo,tags", "unrecognized %(describe) argument: foo,tags"),
            ("abbrev,tags", "argument expected for describe:abbrev"),
            ("tags,abbrev=x,tags", "cannot fully parse describe:abbrev=x,tags"),
            ("abbrev=-1", "positive value expected describe:abbrev=-1"),
            ("match", "value expected describe:match="),
        ] {
            assert!(matches!(options(text.as_bytes()), Err(Failure::Fatal(told)) if told == expected), "{text}");
        }
    }
}
