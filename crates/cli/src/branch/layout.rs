use super::Kind;
use crate::for_each_ref::{color::sequence, render::columns, sort::Entry};
use bstr::{BStr, BString};
use refdb::config::Config;

/// The terminal sequences that switch on the color of each part of a line, and the one that resets it. All of them are
/// empty if no colors are shown.
#[derive(Debug, Default)]
pub(super) struct Colors {
    current: BString,
    local: BString,
    remote: BString,
    upstream: BString,
    worktree: BString,
    reset: BString,
}

impl Colors {
    /// Reads `color.branch.<slot>`. Returns `None` if a value is invalid.
    pub(super) fn of(config: &Config, are_shown: bool) -> Option<Self> {
        // Git stops at an invalid value, even at one that is not in effect.
        let slot = |name: &str, usual: &str| {
            let key = format!("color.branch.{name}");
            config.all(&key).try_fold(BString::from(usual), |_, value| sequence(value.raw?))
        };
        // No part of a list has this color.
        slot("plain", "")?;
        let colors = Colors {
            current: slot("current", "\x1b[32m")?,
            local: slot("local", "")?,
            remote: slot("remote", "\x1b[31m")?,
            upstream: slot("upstream", "\x1b[34m")?,
            worktree: slot("worktree", "\x1b[36m")?,
            reset: slot("reset", "\x1b[m")?,
        };
        Some(if are_shown { colors } else { Colors::default() })
    }
}

/// What decides the format of a line if there is no `--format`.
pub(super) struct Look<'a> {
    pub(super) kind: Kind,
    pub(super) verbose: usize,
    /// The number of digits of object ids; 0 for all, `None` if the configuration decides.
    pub(super) digits: Option<u32>,
    pub(super) colors: &'a Colors,
}

impl Look<'_> {
    /// Returns the text that precedes the names of remote-tracking branches.
    fn prefix(&self) -> &'static str {
        if self.kind == Kind::Remote { "" } else { "remotes/" }
    }

    /// Returns the width of the widest name in columns. `detached` is the text that is shown for a detached HEAD.
    pub(super) fn width(&self, entries: &[Entry], detached: Option<&BStr>) -> usize {
        let width = |entry: &Entry| {
            let name = entry.name();
            if let Some(local) = name.strip_prefix(b"refs/heads/") {
                columns(local)
            } else if let Some(remote) = name.strip_prefix(b"refs/remotes/") {
                self.prefix().len() + columns(remote)
            } else {
                columns(detached.unwrap_or(name))
            }
        };
        entries.iter().map(width).max().unwrap_or(0)
    }

    /// Returns the format of a line. With `--verbose`, names are padded to `width` columns; otherwise `width` is
    /// ignored.
    pub(super) fn format(&self, width: usize) -> BString {
        let Colors { current, local, remote, upstream, worktree, reset } = self.colors;
        let id = match self.digits {
            None => "%(objectname:short)".to_owned(),
            Some(0) => "%(objectname)".to_owned(),
            Some(digits) => format!("%(objectname:short={digits})"),
        };
        let prefix = self.prefix();
        let target = "%(if)%(symref)%(then) -> %(symref:short)";
        let align = format!("%(align:{width},left)");
        let upstream_too = format!(
            "%(if:notequals=*)%(HEAD)%(then)%(if)%(worktreepath)%(then)({worktree}%(worktreepath){reset}) %(end)%(end)\
            %(if)%(upstream)%(then)[{upstream}%(upstream:short){reset}\
            %(if)%(upstream:track)%(then): %(upstream:track,nobracket)%(end)] %(end)"
        );
        let more = match self.verbose {
            1 => "%(if)%(upstream:track)%(then)%(upstream:track) %(end)",
            _ => &upstream_too,
        };
        let (here, there) = match self.verbose {
            0 => (
                format!("%(refname:lstrip=2){reset}{target}%(end)"),
                format!("{prefix}%(refname:lstrip=2){reset}{target}%(end)"),
            ),
            _ => (
                format!("{align}%(refname:lstrip=2)%(end){reset} {id} {more}%(contents:subject)"),
                format!(
                    "{align}{prefix}%(refname:lstrip=2)%(end){reset}{target}%(else) {id} %(contents:subject)%(end)"
                ),
            ),
        };
        format!(
            "%(if:notequals=refs/remotes)%(refname:rstrip=-2)%(then)\
            %(if)%(HEAD)%(then)* {current}%(else)%(if)%(worktreepath)%(then)+ {worktree}%(else)  {local}%(end)%(end){here}\
            %(else)  {remote}{there}%(end)"
        )
        .into()
    }
}
