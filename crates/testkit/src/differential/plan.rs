use crate::RefFormat;
use bstr::{BString, ByteSlice};
use refdb_types::HashKind;
use std::fmt;

/// A repository, and the steps that are run in it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The ref storage format.
    pub format: RefFormat,
    /// The hash function of object ids.
    pub hash: HashKind,
    /// Whether the repository has no worktree.
    pub bare: bool,
    /// The parts of the repository, in the order in which they are created.
    pub parts: Vec<Part>,
    /// The steps, in the order in which they are run.
    pub steps: Vec<Step>,
}

/// A part of a repository. A part that cannot be created, for example because of an earlier one, is left out of both
/// copies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// A ref and the id of its object. If the name is invalid or has no slash, the object is missing, or the ref is a
    /// branch and the object is no commit, the ref is created without a check of its name and its object.
    Ref(BString, BString),
    /// A symbolic ref and its target.
    Symbolic(BString, BString),
    /// An entry of a reflog: the name of the ref, the old and the new id, the time in seconds since 1970, and the
    /// message.
    Log(BString, [BString; 2], u64, BString),
    /// `git pack-refs --all`.
    Pack,
    /// `git config --add KEY VALUE`.
    Config(BString, BString),
    /// Lines that are appended to the configuration.
    RawConfig(BString),
    /// A linked worktree: its name, and the revision that is checked out in it.
    Tree(BString, BString),
    /// A file: its path in the git folder, and its content.
    File(BString, BString),
    /// An empty folder, by its path in the git folder.
    Folder(BString),
    /// A symbolic link: its path in the git folder, and its target.
    Link(BString, BString),
    /// An executable file: its path in the git folder, and its content. To have its calls compared, a hook records them
    /// at the end of the file that the variable `CALLS` names.
    Program(BString, BString),
}

/// A command line.
#[derive(Clone, Debug)]
pub struct Step {
    /// The folder in which the command runs.
    pub place: Place,
    /// Changes to the environment: `NAME=VALUE` sets a variable, and `NAME` removes it.
    pub environment: Vec<BString>,
    /// The arguments before the command.
    pub globals: Vec<BString>,
    /// The command.
    pub command: &'static str,
    /// The arguments after the command.
    pub words: Vec<BString>,
    /// Standard input, in pieces that can be left out individually.
    pub input: Vec<BString>,
}

/// The folder in which a step runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// The top of the main worktree, or the bare repository.
    Top,
    /// The git folder.
    GitDir,
    /// A linked worktree.
    Tree(BString),
    /// A folder outside of any repository.
    Outside,
}

/// The kinds of repositories and commands that are generated besides the usual ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Areas {
    /// Names in other worktrees: `main-worktree/...`, `worktrees/...`.
    pub worktree_names: bool,
    /// Refs that cannot be read, hold missing objects or have bad names.
    pub broken: bool,
    /// Reflog messages that may be too long for a block.
    pub long_messages: bool,
    /// Mostly `reflog`, `refs` and the lists of `branch` and `tag`, on reflogs of different ages.
    pub lists_and_logs: bool,
    /// Settings from many files and variables, hooks, objects as other tools than git may write them, and names that
    /// may be too long for small blocks.
    pub surroundings: bool,
}

impl Areas {
    /// All kinds of repositories without unusual surroundings, for the commands that a server needs.
    pub const ALL: Areas =
        Areas { worktree_names: true, broken: true, long_messages: true, lists_and_logs: false, surroundings: false };
    /// All kinds of repositories without unusual surroundings, mostly for the commands about reflogs, lists and whole
    /// stores.
    pub const LISTS_AND_LOGS: Areas = Areas { lists_and_logs: true, ..Areas::ALL };
    /// Repositories without broken refs, in unusual surroundings, for all commands.
    pub const SURROUNDINGS: Areas = Areas { broken: false, surroundings: true, ..Areas::ALL };
}

/// A placeholder for the path of the git folder in the content of files and in the environment.
pub(super) const GIT_DIR: &str = "@GIT_DIR@";

impl Step {
    /// Returns the whole command line after the name of the program.
    pub fn line(&self) -> Vec<BString> {
        let command = BString::from(self.command);
        self.globals.iter().cloned().chain([command]).chain(self.words.iter().cloned()).collect()
    }

    /// Returns the command that does the work. Three subcommands of `refs` are other names of a command, which is
    /// returned for them.
    pub fn does(&self) -> &str {
        match (self.command, self.words.first().map(|word| &word[..])) {
            ("refs", Some(b"optimize")) => "pack-refs",
            ("refs", Some(b"list")) => "for-each-ref",
            ("refs", Some(b"exists")) => "show-ref",
            _ => self.command,
        }
    }

    /// Returns `false` for three commands that only read, and `true` for all others, even if what they do here only
    /// reads.
    pub fn changes(&self) -> bool {
        !matches!(self.command, "show-ref" | "for-each-ref" | "check-ref-format")
    }

    /// Returns whether this word is among the arguments after the command.
    pub fn has(&self, word: &str) -> bool {
        self.words.iter().any(|other| other == word)
    }
}

impl fmt::Display for Plan {
    /// Writes shell commands from which a person can repeat the plan with git. Each line begins in the top folder, the
    /// git folder is called `.git` in a bare repository too, `make-ref` stands for what [`Part::Ref`] says, and the
    /// environment of the bench is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bare = if self.bare { " --bare" } else { "" };
        writeln!(f, "git init --ref-format={} --object-format={}{bare}", self.format.name(), self.hash.name())?;
        for part in &self.parts {
            writeln!(f, "{part}")?;
        }
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Ref(name, id) => write!(f, "make-ref {} {}", quoted(name), quoted(id)),
            Part::Symbolic(name, target) => write!(f, "git symbolic-ref {} {}", quoted(name), quoted(target)),
            Part::Log(name, [old, new], seconds, message) => {
                write!(f, "GIT_COMMITTER_DATE='{seconds} +0000' git reflog write {} ", quoted(name))?;
                write!(f, "{} {} {}", quoted(old), quoted(new), quoted(message))
            }
            Part::Pack => write!(f, "git pack-refs --all"),
            Part::Config(key, value) => write!(f, "git config --add {} {}", quoted(key), quoted(value)),
            Part::RawConfig(lines) => write!(f, "printf %s {} >>.git/config", quoted(lines)),
            Part::Tree(name, at) => write!(f, "git worktree add ../trees/{} {}", quoted(name), quoted(at)),
            Part::File(path, content) => write!(f, "printf %s {} >.git/{}", quoted(content), quoted(path)),
            Part::Folder(path) => write!(f, "mkdir -p .git/{}", quoted(path)),
            Part::Link(path, target) => write!(f, "ln -s {} .git/{}", quoted(target), quoted(path)),
            Part::Program(path, content) => {
                let path = quoted(path);
                write!(f, "printf %s {} >.git/{path}; chmod +x .git/{path}", quoted(content))
            }
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Top => {}
            Place::GitDir => write!(f, "cd .git; ")?,
            Place::Tree(name) => write!(f, "cd ../trees/{}; ", quoted(name))?,
            Place::Outside => write!(f, "cd /; ")?,
        }
        if !self.input.is_empty() {
            write!(f, "printf {} | ", quoted(&self.input.concat().into()).replace("\\0", "\\000"))?;
        }
        if !self.environment.is_empty() {
            write!(f, "env")?;
            for word in &self.environment {
                let unset = if word.contains(&b'=') { "" } else { "-u " };
                write!(f, " {unset}{}", quoted(word))?;
            }
            write!(f, " ")?;
        }
        write!(f, "git")?;
        self.line().iter().try_for_each(|word| write!(f, " {}", quoted(word)))
    }
}

/// Quotes a word for bash. A word with a `'` but without a byte that is escaped is not quoted correctly.
fn quoted(word: &BString) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/-_.=:@,^~+".contains(byte);
    if !word.is_empty() && word.iter().all(is_plain) {
        return word.to_string();
    }
    let escaped = word.escape_bytes().to_string();
    let literal = escaped.replace('\\', "\\\\").replace("\\\\", "\\");
    if escaped.contains('\\') { format!("$'{}'", literal.replace('\'', "\\'")) } else { format!("'{escaped}'") }
}
