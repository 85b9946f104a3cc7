use bstr::BStr;

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
