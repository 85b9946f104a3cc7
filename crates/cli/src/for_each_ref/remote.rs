//! The counterparts of branches: `%(upstream)` and `%(push)`. See git-config(1), `branch.*`, `remote.*` and
//! `push.default`.

use bstr::{BStr, BString, ByteSlice};
use refdb::config::Config;
use std::collections::{BTreeMap, BTreeSet};

/// What the configuration says about branches and remotes.
#[derive(Debug, Default)]
pub struct Remotes {
    branches: BTreeMap<BString, Branch>,
    remotes: BTreeMap<BString, Remote>,
    /// Remotes that have no URL in the configuration, with what files of their own and the configuration say of them.
    from_files: BTreeMap<BString, Remote>,
    push_remote: Option<BString>,
    push_default: PushDefault,
}

/// The counterpart of a branch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counterpart {
    /// The local ref that tracks the counterpart, if there is one.
    pub tracking: Option<BString>,
    /// The name of the remote; empty if none is configured or, for an upstream, if `tracking` is `None`.
    pub remote: BString,
    /// The name of the ref in the remote repository; empty if none is configured or, for an upstream, if `tracking` is
    /// `None`.
    pub remote_ref: BString,
}

#[derive(Debug, Default)]
struct Branch {
    remote: Option<BString>,
    push_remote: Option<BString>,
    /// The first value of `branch.NAME.merge`, which is the effective one.
    merge: Option<BString>,
}

#[derive(Clone, Debug, Default)]
struct Remote {
    has_url: bool,
    fetch: Vec<Refspec>,
    push: Vec<Refspec>,
    mirror: bool,
}

#[derive(Clone, Debug)]
struct Refspec {
    from: BString,
    /// `None` if the refspec has no `:`, so that it names no destination. A destination may be empty.
    to: Option<BString>,
    is_negative: bool,
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
    /// Reads the configuration. Variables without a value are ignored, except for `remote.NAME.mirror`, which is then
    /// true.
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
                        b"fetch" => remote.fetch.extend(Refspec::for_fetch(text().as_bstr())),
                        b"push" => remote.push.push(Refspec::parse(text().as_bstr())),
                        b"url" => remote.has_url = !text().is_empty(),
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        remotes
    }

    /// Reads `remotes/NAME` and, unless that gives a URL, `branches/NAME` (gitrepository-layout(5)) for each remote
    /// that a branch may use, that has no URL in the configuration and whose name can be that of a file. `read` returns
    /// the content of such a file. Returns the paths of the files that were read.
    pub fn add_files(&mut self, default_branch: &BStr, read: &dyn Fn(&str, &BStr) -> Option<Vec<u8>>) -> Vec<BString> {
        let branches = self.branches.values().flat_map(|branch| [&branch.remote, &branch.push_remote]);
        let mut used: BTreeSet<BString> = branches.chain([&self.push_remote]).flatten().cloned().collect();
        used.insert(self.default_remote().to_owned());
        let mut found = Vec::new();
        for name in used {
            let mut remote = self.remotes.get(&name).cloned().unwrap_or_default();
            if remote.has_url || name.contains(&b'/') || matches!(name.as_bytes(), b"" | b"." | b"..") {
                continue;
            }
            for folder in ["remotes", "branches"] {
                let Some(text) = read(folder, name.as_bstr()) else { continue };
                match folder {
                    "remotes" => remote.add_lines(&text),
                    _ => remote.add_branch(name.as_bstr(), &text, default_branch),
                }
                found.push([folder.as_bytes(), b"/", &name].concat().into());
                if remote.has_url {
                    break;
                }
            }
            self.from_files.insert(name, remote);
        }
        found
    }

    fn remote(&self, name: &BStr) -> Option<&Remote> {
        self.from_files.get(name).or_else(|| self.remotes.get(name))
    }

    /// Returns the ref that a branch is merged with. `expand` finds the full name of a branch of this repository.
    pub fn upstream(&self, name: &BStr, expand: &mut dyn FnMut(&BStr) -> BString) -> Counterpart {
        let mut found = || {
            let branch = self.branches.get(name.strip_prefix(b"refs/heads/")?.as_bstr())?;
            let (remote, merge) = (branch.remote.as_ref()?, branch.merge.as_ref()?);
            let tracking = match self.remote(remote.as_bstr()).and_then(|remote| map(&remote.fetch, merge.as_bstr())) {
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
        let remote = self.remote(configured.map_or(self.default_remote(), |name| name.as_bstr()));
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
            // The upstream is used only if it is also the ref that tracks the remote's branch of the same name.
            (_, PushDefault::Simple) => {
                self.upstream(name, expand).tracking.filter(|upstream| tracking(name).as_ref() == Some(upstream))
            }
        }
    }
}

impl Remote {
    /// Adds what a file below `remotes/` says.
    fn add_lines(&mut self, text: &[u8]) {
        for line in text.lines() {
            let value = |key: &str| line.strip_prefix(key.as_bytes()).map(|value| value.trim_ascii().as_bstr());
            if let Some(url) = value("URL:") {
                self.has_url |= !url.is_empty();
            } else if let Some(spec) = value("Pull:") {
                self.fetch.extend(Refspec::for_fetch(spec));
            } else if let Some(spec) = value("Push:") {
                self.push.push(Refspec::parse(spec));
            }
        }
    }

    /// Adds what a file below `branches/` says: `URL#BRANCH` or `URL`.
    fn add_branch(&mut self, name: &BStr, text: &[u8], default_branch: &BStr) {
        let line = text.lines().next().unwrap_or_default().trim_ascii();
        if line.is_empty() {
            return;
        }
        let there = line.split_once_str("#").map_or(default_branch.as_bytes(), |(_, there)| there);
        let there: BString = [b"refs/heads/", there].concat().into();
        let here: BString = [b"refs/heads/", name.as_bytes()].concat().into();
        self.fetch.push(Refspec::new(there.clone(), here));
        self.push.push(Refspec::new("HEAD".into(), there));
        self.has_url = true;
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
    fn new(from: BString, to: BString) -> Self {
        Refspec { from, to: Some(to), is_negative: false }
    }

    /// Parses a refspec for fetches. Returns `None` for `:`, which fetches HEAD and gives it no name.
    fn for_fetch(text: &BStr) -> Option<Self> {
        Some(Refspec::parse(text)).filter(|spec| !spec.is_matching())
    }

    /// Returns whether this is `:`, which maps no name: a push then updates each branch that the remote has, too.
    fn is_matching(&self) -> bool {
        self.from.is_empty() && self.to.as_ref().is_some_and(|to| to.is_empty())
    }

    /// Parses a refspec.
    fn parse(text: &BStr) -> Self {
        let is_negative = text.starts_with(b"^");
        let text = text.strip_prefix(b"^").or(text.strip_prefix(b"+")).unwrap_or(text);
        let (from, to) = text.split_once_str(":").map_or((text, None), |(from, to)| (from, Some(to.into())));
        Refspec { from: from.into(), to, is_negative }
    }
}

/// Returns the name to which the first matching refspec with a destination maps `name`.
///
/// As in git, a negative refspec excludes `name` if it matches the source of `name` in another refspec: `name` itself
/// or, if that refspec is a pattern with a destination, the source from which it would make `name`.
fn map(refspecs: &[Refspec], name: &BStr) -> Option<BString> {
    let is_negated =
        |source: &BStr| refspecs.iter().any(|spec| spec.is_negative && turn(&spec.from, b"", source).is_some());
    let source = |spec: &Refspec| match &spec.to {
        _ if spec.is_negative => None,
        _ if spec.is_matching() => Some(name.to_owned()),
        Some(to) if spec.from.contains(&b'*') => turn(to, &spec.from, name),
        _ => turn(&spec.from, &spec.from, name),
    };
    if refspecs.iter().filter_map(source).any(|source| is_negated(source.as_bstr())) {
        return None;
    }
    let positive = refspecs.iter().filter(|spec| !spec.is_negative);
    positive.filter_map(|spec| turn(&spec.from, spec.to.as_ref()?, name)).next()
}

/// Returns what `name` becomes if the text for the `*` of `pattern` takes the place of that of `result`, or `None` if
/// `pattern` does not match.
fn turn(pattern: &[u8], result: &[u8], name: &BStr) -> Option<BString> {
    let Some((before, after)) = pattern.split_once_str("*") else {
        return (pattern == name.as_bytes()).then(|| result.into());
    };
    let middle = name.strip_prefix(before)?.strip_suffix(after)?;
    Some(result.replacen("*", middle, 1).into())
}
