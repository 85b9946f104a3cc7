//! Reads `-c`, `GIT_CONFIG_PARAMETERS` and `GIT_CONFIG_COUNT`: git-config(1), "ENVIRONMENT".

use super::{BadKey, ConfigError, parse::canonical_key};
use crate::environment::Environment;
use bstr::ByteSlice;
use refdb_types::space::{is_space, trim_start};
use std::os::unix::ffi::OsStrExt;

type SetVariable<'a> = dyn FnMut(&[u8], Option<&[u8]>) -> Result<(), ConfigError> + 'a;

/// Calls `set` for each setting, in order of increasing precedence.
pub(super) fn each(environment: &Environment, set: &mut SetVariable<'_>) -> Result<(), ConfigError> {
    if let Some(count) = environment.get("GIT_CONFIG_COUNT").filter(|count| !count.is_empty()) {
        for index in 0..parse_count(count.as_bytes())? {
            let key = numbered(environment, "GIT_CONFIG_KEY_", index, "key")?;
            let value = numbered(environment, "GIT_CONFIG_VALUE_", index, "value")?;
            set(&checked_key(key.as_bytes())?, Some(value.as_bytes()))?;
        }
    }
    if let Some(parameters) = environment.get("GIT_CONFIG_PARAMETERS").filter(|parameters| !parameters.is_empty()) {
        let mut rest = parameters.as_bytes();
        while let Some((key, value)) = next_parameter(&mut rest)? {
            set(&checked_key(&key)?, value.as_deref())?;
        }
    }
    Ok(())
}

fn parse_count(text: &[u8]) -> Result<u32, ConfigError> {
    let bad = |what: &str| Err(ConfigError::CommandLine(format!("{what} in GIT_CONFIG_COUNT")));
    // A count is decimal, whatever its first digits are, and has no unit.
    let text = text.trim_ascii_start();
    let (is_negative, digits) = match text {
        [sign @ (b'-' | b'+'), digits @ ..] => (*sign == b'-', digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return bad("bogus count");
    }
    let count = digits.to_str().ok().and_then(|digits| digits.parse().ok());
    match count.filter(|count| i32::try_from(*count).is_ok_and(|count| count == 0 || !is_negative)) {
        Some(count) => Ok(count),
        None => bad("too many entries"),
    }
}

fn numbered(
    environment: &Environment,
    prefix: &str,
    index: u32,
    what: &str,
) -> Result<std::ffi::OsString, ConfigError> {
    let name = format!("{prefix}{index}");
    environment.get(&name).ok_or_else(|| ConfigError::CommandLine(format!("missing config {what} {name}")))
}

fn checked_key(key: &[u8]) -> Result<Vec<u8>, ConfigError> {
    if key.is_empty() {
        return Err(ConfigError::CommandLine("empty config key".into()));
    }
    canonical_key(key).map_err(|why: BadKey| ConfigError::bad_key(key, why))
}

type Parameter = (Vec<u8>, Option<Vec<u8>>);

/// Parses `'key'='value'`, `'key'=`, or the forms of older versions of git, `'key=value'` and `'key'`.
fn next_parameter(rest: &mut &[u8]) -> Result<Option<Parameter>, ConfigError> {
    let bogus = || ConfigError::CommandLine("bogus format in GIT_CONFIG_PARAMETERS".into());
    if rest.is_empty() {
        return Ok(None);
    }
    let before = rest.len();
    let key = unquote(rest).ok_or_else(bogus)?;
    let at_end = |rest: &[u8]| rest.first().is_none_or(is_space);
    let parameter = if at_end(rest) {
        match key.find_byte(b'=') {
            None | Some(0) if key.first().is_none_or(|first| *first == b'=') => {
                let text = key.as_bstr();
                return Err(ConfigError::CommandLine(format!("bogus config parameter: {text}")));
            }
            Some(at) => (key[..at].to_owned(), Some(key[at + 1..].to_owned())),
            None => (key, None),
        }
    } else if let Some(after) = rest.strip_prefix(b"=") {
        *rest = after;
        if at_end(rest) { (key, None) } else { (key, Some(unquote(rest).ok_or_else(bogus)?)) }
    } else {
        return Err(bogus());
    };
    if !at_end(rest) {
        return Err(bogus());
    }
    *rest = trim_start(rest);
    debug_assert!(rest.len() < before, "each parameter takes some of the text");
    Ok(Some(parameter))
}

/// Reads a word in single quotes, in which `'\''` and `'\!'` stand for `'` and `!`.
fn unquote(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let mut word = Vec::new();
    let mut text = rest.strip_prefix(b"'")?;
    loop {
        let end = text.find_byte(b'\'')?;
        word.extend_from_slice(&text[..end]);
        text = &text[end + 1..];
        match text {
            [b'\\', byte @ (b'\'' | b'!'), b'\'', ..] => {
                word.push(*byte);
                text = &text[3..];
            }
            _ => {
                *rest = text;
                return Some(word);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(environment: &Environment) -> Result<Vec<String>, String> {
        let mut found = Vec::new();
        each(environment, &mut |key, value| {
            found.push(format!(
                "{}{}",
                key.as_bstr(),
                value.map(|value| format!("={}", value.as_bstr())).unwrap_or_default()
            ));
            Ok(())
        })
        .map_err(|error| error.to_string())?;
        Ok(found)
    }

    #[test]
    fn both_forms_of_parameters_are_read() {
        let with = |text: &str| all(&Environment::empty("/").with("GIT_CONFIG_PARAMETERS", text));
        assert_eq!(
            with("'a.b=c d' 'X.Y.z'='q='  'x.Y' 'd.e'='' 'f.g'=").unwrap(),
            ["a.b=c d", "x.Y.z=q=", "x.y", "d.e=", "f.g"]
        );
        assert_eq!(with("'a.b'='x'\\''y'\\!'z'").unwrap(), ["a.b=x'y!z"]);
        for bogus in ["'a.b=c", "'a.b=c'x", "a.b=c", "'a.b'='c", "'a.b'=c"] {
            assert_eq!(with(bogus).unwrap_err(), "bogus format in GIT_CONFIG_PARAMETERS", "{bogus}");
        }
        for (odd, error) in [
            ("''", "bogus config parameter: "),
            ("'a.b=c' '=d'", "bogus config parameter: =d"),
            ("''='x'", "empty config key"),
            ("' '", "key does not contain a section:  "),
            ("' a.b=c'", "invalid key:  a.b"),
        ] {
            assert_eq!(with(odd).unwrap_err(), error, "{odd}");
        }
    }

    #[test]
    fn what_is_set_by_c_is_read_back() {
        for setting in ["a.b=it's!", "a.b", "a.b=", "a.x'y.c=d=e"] {
            let environment = Environment::empty("/").with_config("q.r=1".into()).with_config(setting.into());
            assert_eq!(all(&environment).unwrap(), ["q.r=1", setting]);
        }
    }

    #[test]
    fn counted_variables_come_before_parameters_and_are_checked() {
        let environment = Environment::empty("/")
            .with("GIT_CONFIG_COUNT", "1")
            .with("GIT_CONFIG_KEY_0", "A.b")
            .with("GIT_CONFIG_VALUE_0", "env")
            .with("GIT_CONFIG_PARAMETERS", "'a.b=c'");
        assert_eq!(all(&environment).unwrap(), ["a.b=env", "a.b=c"]);
        for (count, error) in [
            ("x", "bogus count in GIT_CONFIG_COUNT"),
            ("1k", "bogus count in GIT_CONFIG_COUNT"),
            ("-1", "too many entries in GIT_CONFIG_COUNT"),
            ("99999999999", "too many entries in GIT_CONFIG_COUNT"),
            ("0x1", "bogus count in GIT_CONFIG_COUNT"),
            ("010", "missing config key GIT_CONFIG_KEY_1"),
            (" +2", "missing config key GIT_CONFIG_KEY_1"),
            ("2", "missing config key GIT_CONFIG_KEY_1"),
        ] {
            assert_eq!(all(&environment.clone().with("GIT_CONFIG_COUNT", count)).unwrap_err(), error);
        }
    }
}
