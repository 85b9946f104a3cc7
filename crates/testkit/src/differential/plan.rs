use crate::RefFormat;
use bstr::{BString, ByteSlice};
use refdb_types::HashKind;
use std::fmt;

/// A repository and steps on it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How refs are stored.
    pub format: RefFormat,
    /// How objects are named.
    pub hash: HashKind,
    /// Whether there is no worktree.
    pub bare: bool,
    /// What the repository is made of, in order.
    pub parts: Vec<Part>,
    /// The steps.
    pub steps: Vec<Step>,
}

/// A piece of a repository. A piece that cannot be made, because of one before it for instance, is left out in both
/// copies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// A ref that holds the object with this id. Neither is checked: the name may be bad, the object missing.
    Ref(BString, BString),
    /// A symbolic ref and its target.
    Symbolic(BString, BString),
    /// An entry of a ref's reflog: from the one id to the other, at this time, with a message.
    Log(BString, [BString; 2], u64, BString),
    /// `git pack-refs --all`.
    Pack,
    /// `git config KEY VALUE`.
    Config(BString, BString),
    /// Lines at the end of the configuration.
    RawConfig(BString),
    /// A linked worktree of this name, with this revision checked out.
    Tree(BString, BString),
    /// A file of this content, by its path in the git folder.
    File(BString, BString),
    /// An empty folder, by its path in the git folder.
    Folder(BString),
    /// A symbolic link and what it says, by its path in the git folder.
    Link(BString, BString),
    /// An executable file of this content, by its path in the git folder. A hook appends what it wants compared to the
    /// file that the variable `CALLS` names.
    Program(BString, BString),
}

/// A command line.
#[derive(Clone, Debug)]
pub struct Step {
    /// Where it runs.
    pub place: Place,
    /// What the environment has besides, as `NAME=VALUE`, or has not, as `NAME`.
    pub environment: Vec<BString>,
    /// The words before the command.
    pub globals: Vec<BString>,
    /// The command.
    pub command: &'static str,
    /// The words after it.
    pub words: Vec<BString>,
    /// Standard input, in pieces that can be left out one by one.
    pub input: Vec<BString>,
}

/// A folder to run in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// The top of the main worktree, or the bare repository.
    Top,
    /// The git folder.
    GitDir,
    /// A linked worktree.
    Tree(BString),
    /// A folder that is in no repository.
    Outside,
}

/// Which kinds of repositories and commands are tried besides the usual ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Areas {
    /// Names that lead into other worktrees: `main-worktree/...`, `worktrees/...`.
    pub worktree_names: bool,
    /// Refs that cannot be read, hold missing objects or have bad names.
    pub broken: bool,
    /// Messages for reflogs that do not fit a block.
    pub long_messages: bool,
    /// Mostly `reflog`, `refs` and the lists of `branch` and `tag`, on reflogs of different ages.
    pub lists_and_logs: bool,
    /// Settings from every file and variable, hooks, objects that no git writes, and names too long for small blocks.
    pub surroundings: bool,
}

impl Areas {
    /// All kinds of repositories, for the commands that host refs.
    pub const ALL: Areas =
        Areas { worktree_names: true, broken: true, long_messages: true, lists_and_logs: false, surroundings: false };
    /// All kinds of repositories, mostly for the commands about reflogs, lists and whole stores.
    pub const LISTS_AND_LOGS: Areas = Areas { lists_and_logs: true, ..Areas::ALL };
    /// Sound repositories in all surroundings, for all commands.
    pub const SURROUNDINGS: Areas = Areas { broken: false, surroundings: true, ..Areas::ALL };
}

/// What stands for the git folder's path in the content of files and in the environment.
pub(super) const GIT_DIR: &str = "@GIT_DIR@";

impl Step {
    /// The whole command line after the program's name.
    pub fn line(&self) -> Vec<BString> {
        let command = BString::from(self.command);
        self.globals.iter().cloned().chain([command]).chain(self.words.iter().cloned()).collect()
    }

    /// The command whose work it is: `refs` has other names for three of them.
    pub fn does(&self) -> &str {
        match (self.command, self.words.first().map(|word| &word[..])) {
            ("refs", Some(b"optimize")) => "pack-refs",
            ("refs", Some(b"list")) => "for-each-ref",
            ("refs", Some(b"exists")) => "show-ref",
            _ => self.command,
        }
    }

    /// Whether it may change a repository.
    pub fn changes(&self) -> bool {
        !matches!(self.command, "show-ref" | "for-each-ref" | "check-ref-format")
    }

    /// Whether this word is among those after the command.
    pub fn has(&self, word: &str) -> bool {
        self.words.iter().any(|other| other == word)
    }
}

impl fmt::Display for Plan {
    /// A script that does the same with git.
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
            Part::Config(key, value) => write!(f, "git config {} {}", quoted(key), quoted(value)),
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

/// A word as a shell takes it, if it is not too odd.
fn quoted(word: &BString) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/-_.=:@,^~+".contains(byte);
    if !word.is_empty() && word.iter().all(is_plain) {
        return word.to_string();
    }
    let escaped = word.escape_bytes().to_string();
    let literal = escaped.replace('\\', "\\\\").replace("\\\\", "\\");
    if escaped.contains('\\') { format!("$'{}'", literal.replace('\'', "\\'")) } else { format!("'{escaped}'") }
}
