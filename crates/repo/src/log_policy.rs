use bstr::BStr;

/// Which refs get a reflog when they are first changed: `core.logAllRefUpdates`.
///
/// A ref that already has a reflog keeps getting entries under every policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogPolicy {
    /// No ref gets a reflog unless the caller asks for one: `false`, and the default in a bare repository.
    #[default]
    Never,
    /// `HEAD`, branches, remote-tracking branches and notes get a reflog: `true`, and the default in a repository
    /// that is not bare.
    Usual,
    /// Every ref gets a reflog, also one at the root such as `ORIG_HEAD`: `always`.
    Always,
}

impl LogPolicy {
    /// Returns whether a ref of this name gets a reflog even if the caller does not ask for one.
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

#[cfg(test)]
mod tests {
    use super::*;

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
