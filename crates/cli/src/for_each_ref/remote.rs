//! The counterparts of branches: `%(upstream)` and `%(push)`. See git-config(1), `branch.*`, `remote.*` and
//! `push.default`.

use bstr::{BStr, BString, ByteSlice};
use refdb::config::Config;
use std::collections::BTreeMap;

/// What the configuration says about branches and remotes.
#[derive(Debug, Default)]
pub struct Remotes {
    branches: BTreeMap<BString, Branch>,
    remotes: BTreeMap<BString, Remote>,
    push_remote: Option<BString>,
    push_default: PushDefault,
}

/// The counterpart of a branch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counterpart {
    /// The local ref that tracks the counterpart, if there is one.
    pub tracking: Option<BString>,
    /// The name of the remote; empty if none is configured.
    pub remote: BString,
    /// The name of the ref in the remote repository; empty if none is configured.
    pub remote_ref: BString,
}

#[derive(Debug, Default)]
struct Branch {
    remote: Option<BString>,
    push_remote: Option<BString>,
    /// The first value of `branch.NAME.merge`, which is the effective one.
    merge: Option<BString>,
}

#[derive(Debug, Default)]
struct Remote {
    fetch: Vec<Refspec>,
    push: Vec<Refspec>,
    mirror: bool,
}

#[derive(Debug)]
struct Refspec {
    from: BString,
    to: BString,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum PushDefault {
    Nothing,
    Current,
    Upstream,
    #[default]
    Simple,
}

impl Remotes {
    /// Reads the configuration. Variables without a value are ignored, except for booleans, which are then true.
    pub fn new(config: &Config) -> Self {
        let mut remotes = Remotes::default();
        for value in config.iter() {
            let key = value.key.as_bytes();
            let (Some((section, _)), Some((before, variable))) = (key.split_once_str("."), key.rsplit_once_str("."))
            else {
                continue;
            };
            let name = before.get(section.len() + 1..).unwrap_or_default();
            if let (b"remote", b"mirror", false) = (section, variable, name.is_empty()) {
                remotes.remotes.entry(name.into()).or_default().mirror = value.boolean().unwrap_or(false);
                continue;
            }
            let Some(text) = value.raw else { continue };
            let text = || text.to_owned();
            match (section, variable) {
                (b"remote", b"pushdefault") => remotes.push_remote = Some(text()),
                (b"push", b"default") => remotes.push_default = PushDefault::parse(&text()),
                (b"branch", _) if !name.is_empty() => {
                    let branch = remotes.branches.entry(name.into()).or_default();
                    match variable {
                        b"remote" => branch.remote = Some(text()),
                        b"pushremote" => branch.push_remote = Some(text()),
                        b"merge" if branch.merge.is_none() => branch.merge = Some(text()),
                        _ => {}
                    }
                }
                (b"remote", _) if !name.is_empty() => {
                    let remote = remotes.remotes.entry(name.into()).or_default();
                    match variable {
                        b"fetch" => remote.fetch.push(Refspec::parse(text().as_bstr())),
                        b"push" => remote.push.push(Refspec::parse(text().as_bstr())),
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        remotes
    }

    /// Returns the ref that a branch is merged with. `expand` finds the full name of a branch of this repository.
    pub fn upstream(&self, name: &BStr, expand: &mut dyn FnMut(&BStr) -> BString) -> Counterpart {
        let mut found = || {
            let branch = self.branches.get(name.strip_prefix(b"refs/heads/")?.as_bstr())?;
            let (remote, merge) = (branch.remote.as_ref()?, branch.merge.as_ref()?);
            let tracking = match self.remotes.get(remote).and_then(|remote| map(&remote.fetch, merge.as_bstr())) {
                Some(tracking) => tracking,
                None if remote == "." => expand(merge.as_bstr()),
                None => return None,
            };
            Some(Counterpart { tracking: Some(tracking), remote: remote.clone(), remote_ref: merge.clone() })
        };
        found().unwrap_or_default()
    }

    /// Returns the ref that a branch is pushed to.
    pub fn push(&self, name: &BStr, expand: &mut dyn FnMut(&BStr) -> BString) -> Counterpart {
        let Some(short) = name.strip_prefix(b"refs/heads/") else { return Counterpart::default() };
        let branch = self.branches.get(short.as_bstr());
        let own = branch.and_then(|branch| branch.push_remote.as_ref());
        let configured = own.or(self.push_remote.as_ref()).or_else(|| branch?.remote.as_ref());
        let remote = self.remotes.get(configured.map_or(self.default_remote(), |name| name.as_bstr()));
        let pushed = remote.and_then(|remote| map(&remote.push, name));
        Counterpart {
            tracking: self.push_tracking(name, remote, pushed.as_ref().map(|to| to.as_bstr()), expand),
            remote: configured.cloned().unwrap_or_default(),
            remote_ref: pushed.unwrap_or_default(),
        }
    }

    /// Returns the remote of a branch for which none is configured: the repository's only remote, or else `origin`.
    ///
    /// git also counts remotes that only branches mention, but only if it has already shown such a branch.
    fn default_remote(&self) -> &BStr {
        match self.remotes.keys().collect::<Vec<_>>()[..] {
            [only] => only.as_bstr(),
            _ => BStr::new("origin"),
        }
    }

    fn push_tracking(
        &self,
        name: &BStr,
        remote: Option<&Remote>,
        pushed: Option<&BStr>,
        expand: &mut dyn FnMut(&BStr) -> BString,
    ) -> Option<BString> {
        let tracking = |there: &BStr| map(&remote?.fetch, there);
        match (remote, self.push_default) {
            (Some(remote), _) if !remote.push.is_empty() => tracking(pushed?),
            (Some(remote), _) if remote.mirror => tracking(name),
            (_, PushDefault::Nothing) => None,
            (_, PushDefault::Current) => tracking(name),
            (_, PushDefault::Upstream) => self.upstream(name, expand).tracking,
            // The upstream is used only if both mappings lead to the same ref.
            (_, PushDefault::Simple) => {
                self.upstream(name, expand).tracking.filter(|upstream| tracking(name).as_ref() == Some(upstream))
            }
        }
    }
}

impl PushDefault {
    fn parse(text: &BString) -> Self {
        match text.as_bytes() {
            b"nothing" => PushDefault::Nothing,
            b"current" | b"matching" => PushDefault::Current,
            b"upstream" | b"tracking" => PushDefault::Upstream,
            _ => PushDefault::Simple,
        }
    }
}

impl Refspec {
    /// Parses a refspec. A negative refspec, or `:`, maps no name.
    fn parse(text: &BStr) -> Self {
        let text = text.strip_prefix(b"+").unwrap_or(text);
        let (from, to) = text.split_once_str(":").unwrap_or((text, b""));
        Refspec { from: from.into(), to: to.into() }
    }

    fn map(&self, name: &BStr) -> Option<BString> {
        let Some((before, after)) = self.from.split_once_str("*") else {
            return (self.from == name).then(|| self.to.clone());
        };
        let middle = name.strip_prefix(before)?.strip_suffix(after)?;
        Some(self.to.replacen("*", middle, 1).into())
    }
}

/// Returns the name to which the first matching refspec maps `name`.
fn map(refspecs: &[Refspec], name: &BStr) -> Option<BString> {
    refspecs.iter().find_map(|refspec| refspec.map(name)).filter(|to| !to.is_empty())
}
