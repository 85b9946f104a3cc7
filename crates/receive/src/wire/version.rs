/// The version of git's protocol that a client asks for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Version {
    /// The server begins with the refs.
    V0,
    /// The server begins with a version line, followed by the refs.
    V1,
    /// The client sends commands; see gitprotocol-v2(5). The version does not define pushes, so servers handle them as
    /// in version 0.
    V2,
}

impl Version {
    /// Returns the highest known version in a list of `KEY=VALUE` separated by colons, in the form of the header
    /// `Git-Protocol` and the variable `GIT_PROTOCOL`. Unknown keys and versions are ignored. If no known version is
    /// left, returns version 0.
    pub fn of(list: &[u8]) -> Self {
        let versions = list.split(|byte| *byte == b':').filter_map(|item| match item.strip_prefix(b"version=")? {
            b"0" => Some(Version::V0),
            b"1" => Some(Version::V1),
            b"2" => Some(Version::V2),
            _ => None,
        });
        versions.max().unwrap_or(Version::V0)
    }

    /// Returns the number of the version.
    pub fn number(self) -> u8 {
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
