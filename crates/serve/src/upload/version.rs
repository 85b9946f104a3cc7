//! Which version of the protocol a client asks for.

/// A version of git's protocol.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Version {
    V0,
    V1,
    V2,
}

impl Version {
    /// Returns the highest known version in a list of `KEY=VALUE` separated by colons, as the header `Git-Protocol` or
    /// the variable `GIT_PROTOCOL` has it. Unknown keys and versions are ignored.
    pub(crate) fn of(list: &[u8]) -> Self {
        let versions = list.split(|byte| *byte == b':').filter_map(|item| match item.strip_prefix(b"version=")? {
            b"0" => Some(Version::V0),
            b"1" => Some(Version::V1),
            b"2" => Some(Version::V2),
            _ => None,
        });
        versions.max().unwrap_or(Version::V0)
    }

    pub(crate) fn number(self) -> u8 {
        self as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_known_version_wins() {
        for (list, wanted) in [
            ("", Version::V0),
            ("version=2", Version::V2),
            ("version=1", Version::V1),
            ("version=1:version=2:version=0", Version::V2),
            ("x=y:version=2:z", Version::V2),
            ("version=3", Version::V0),
            ("version=02", Version::V0),
            ("Version=2", Version::V0),
            ("version=2 ", Version::V0),
        ] {
            assert_eq!(Version::of(list.as_bytes()), wanted, "{list}");
        }
    }
}
