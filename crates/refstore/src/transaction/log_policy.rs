use bstr::{BStr, BString};

/// Which refs get a reflog when they first change: `core.logAllRefUpdates`.
///
/// A ref that has a reflog keeps getting entries whatever this says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogPolicy {
    /// `false`; also where nothing is set and the repository is bare.
    #[default]
    Never,
    /// `true`: HEAD, branches, remote-tracking branches and notes. Also where nothing is set and the repository is not
    /// bare.
    Usual,
    /// `always`: every ref below `refs/`, and HEAD.
    Always,
}

impl LogPolicy {
    /// Whether a ref of this name gets a reflog without being asked for one.
    pub fn creates_log(self, name: &BStr) -> bool {
        match self {
            LogPolicy::Never => false,
            LogPolicy::Always => true,
            LogPolicy::Usual => {
                name == "HEAD"
                    || [&b"refs/heads/"[..], b"refs/remotes/", b"refs/notes/"]
                        .iter()
                        .any(|prefix| name.starts_with(prefix))
            }
        }
    }
}

/// A message as git stores it: runs of white space become one space, none at either end, so that it is one line.
pub fn normalize_message(message: &BStr) -> BString {
    let mut out = BString::default();
    for word in message.split(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).filter(|word| !word.is_empty()) {
        if !out.is_empty() {
            out.push(b' ');
        }
        out.extend_from_slice(word);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_become_one_line() {
        for (message, stored) in [("", ""), (" \n", ""), ("a  b", "a b"), ("\ta\n\nb \r\n", "a b")] {
            assert_eq!(normalize_message(message.into()), stored, "{message:?}");
        }
    }

    #[test]
    fn the_usual_refs_are_logged() {
        for name in ["HEAD", "refs/heads/a", "refs/remotes/o/a", "refs/notes/c"] {
            assert!(LogPolicy::Usual.creates_log(name.into()), "{name}");
        }
        for name in ["refs/tags/a", "refs/headsx", "ORIG_HEAD", "refs/changes/1"] {
            assert!(!LogPolicy::Usual.creates_log(name.into()), "{name}");
            assert!(LogPolicy::Always.creates_log(name.into()), "{name}");
            assert!(!LogPolicy::Never.creates_log(name.into()), "{name}");
        }
    }
}
