use super::{
    Changed, Difference, Left, Part, Place, Plan, Said, State, Step, objects::Objects, parts::NOW, plan::GIT_DIR,
};
use crate::{
    Git,
    folder::{copy_tree, files_below},
    git,
};
use bstr::{BStr, BString, ByteSlice};
use refdb_types::{HashKind, RefName};
use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fmt, fs,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt, process::ExitStatusExt},
    path::{Path, PathBuf},
    process::{Command, Output},
};
use tempfile::TempDir;

/// Runs plans with git and with another program, and compares the results.
///
/// Both copies of a repository are used at the same path, one after the other, so that no path in a repository or in a
/// message can cause a difference.
pub struct Bench {
    root: TempDir,
    program: PathBuf,
    differences: &'static [Difference],
    ends: fn(&State) -> bool,
    objects: BTreeMap<HashKind, Objects>,
}

/// A step after which the two programs differ.
#[derive(Debug)]
pub struct Divergence {
    /// The number of the step, from 0.
    pub step: usize,
    /// The output of git and of the other program.
    pub said: [Said; 2],
    /// The refs, reflogs and files that are not the same.
    pub left: Vec<Changed>,
}

/// The result of running a plan.
#[derive(Debug, Default)]
pub struct Ran {
    /// The number of steps that were run.
    pub steps: usize,
    /// The number of steps that succeeded in git.
    pub succeeded: usize,
    /// The number of times that each intended difference occurred, by its index in the list that [`Bench::new`] was
    /// given.
    pub met: Vec<usize>,
    /// The first difference that is not intended.
    pub divergence: Option<Divergence>,
}

const COPIES: [&str; 2] = ["git", "refdb"];

impl Bench {
    /// Creates a bench for `program`, which may differ from git as `differences` say.
    pub fn new(program: impl Into<PathBuf>, differences: &'static [Difference]) -> Self {
        let memory = Path::new("/dev/shm");
        let mut builder = tempfile::Builder::new();
        builder.prefix("refdb-differential.");
        let root = if memory.is_dir() { builder.tempdir_in(memory) } else { builder.tempdir() };
        let objects = [HashKind::Sha1, HashKind::Sha256].map(|hash| (hash, Objects::new(hash))).into();
        let bench = Bench {
            root: root.expect("a temporary folder can be made"),
            program: program.into(),
            differences,
            ends: |_| false,
            objects,
        };
        fs::create_dir(bench.root.path().join("outside")).expect("a new folder has no entries");
        bench
    }

    /// Ends plans without a comparison of further steps once both copies are in a state for which `ends` returns true.
    #[must_use]
    pub fn ending_at(self, ends: fn(&State) -> bool) -> Self {
        Bench { ends, ..self }
    }

    pub(super) fn objects(&self, hash: HashKind) -> &Objects {
        &self.objects[&hash]
    }

    /// Builds the repository, copies it, and runs the steps in one with git and in the other with the program. The run
    /// ends early after a difference that is not intended, any difference in refs, reflogs or files, a crash of git, or
    /// a state in which plans end ([`Bench::ending_at`]).
    ///
    /// # Panics
    ///
    /// If, at the end of the plan, a copy has been changed by the steps that only read since the last one that writes.
    pub fn run(&self, plan: &Plan) -> Ran {
        self.build(plan);
        let mut ran = Ran { met: vec![0; self.differences.len()], ..Ran::default() };
        let mut before = State::of(&self.copy(0, plan));
        for (turn, step) in plan.steps.iter().enumerate() {
            let git = self.say(0, Git::find().program(), plan, step);
            let other = self.say(1, &self.program, plan, step);
            let states = [0, 1].map(|copy| if step.changes() { Some(State::of(&self.copy(copy, plan))) } else { None });
            ran.steps += 1;
            ran.succeeded += usize::from(git.code == 0);
            let left = match &states {
                [Some(one), Some(two)] => one.differences(two, &before),
                _ => Vec::new(),
            };
            let is_alike = git == other && left.is_empty();
            let is_meant = is_alike
                || self.is_meant(plan, step, [&git, &other], (&left, &before), &mut ran.met)
                || left.is_empty() && self.tells_other_mistakes(plan, turn, &git, &other);
            if !is_meant {
                ran.divergence = Some(Divergence { step: turn, said: [git, other], left });
                return ran;
            }
            // A git that crashed may have left other things half done, which are not compared.
            if !left.is_empty() || git.code > Said::SIGNALS {
                return ran;
            }
            if let [Some(state), _] = states {
                if (self.ends)(&state) {
                    return ran;
                }
                before = state;
            }
        }
        // Steps that only read must not change either copy.
        for copy in [0, 1] {
            let left = before.differences(&State::of(&self.copy(copy, plan)), &before);
            assert!(left.is_empty(), "{}: what only reads has changed {left:?} after\n{plan}", COPIES[copy]);
        }
        ran
    }

    /// Returns whether every difference after this step is intended.
    fn is_meant(
        &self,
        plan: &Plan,
        step: &Step,
        said: [&Said; 2],
        (left, state): (&[Changed], &State),
        met: &mut [usize],
    ) -> bool {
        let [mut git, mut other] = said.map(Clone::clone);
        let mut unexplained: Vec<&Changed> = left.iter().collect();
        for (difference, met) in self.differences.iter().zip(met) {
            let before = (git.clone(), other.clone(), unexplained.len());
            (difference.unify)(step, &mut git, &mut other);
            let is_met = before.0 != git || before.1 != other;
            let all = Left { met: is_met, all: left, said, before: state, plan };
            unexplained.retain(|changed| !(difference.left)(step, changed, all));
            *met += usize::from(before != (git.clone(), other.clone(), unexplained.len()));
        }
        git == other && unexplained.is_empty()
    }

    /// Returns whether both programs refuse the same step but report different mistakes in it. This is so if git
    /// reports each line that only the other program has reported, once some of the requests are left out.
    fn tells_other_mistakes(&self, plan: &Plan, turn: usize, git: &Said, other: &Said) -> bool {
        let step = &plan.steps[turn];
        let is_alike = git.code == other.code && git.out == other.out;
        let is_refusal = is_alike && git.code != 0 && !git.err.is_empty() && !other.err.is_empty();
        let mut untold: Vec<&[u8]> =
            other.err.lines().filter(|line| !git.err.lines().any(|told| told == *line)).collect();
        if !is_refusal || step.input.len() < 2 || untold.is_empty() {
            return false;
        }
        // Repeats the plan up to this step in a new repository, and runs each reduced form of the step in a copy of it.
        let [own, kept, base] = [COPIES[0], "kept", "base"].map(|name| self.root.path().join(name));
        fs::rename(&own, &kept).expect("a folder can be renamed");
        self.build_copy(0, plan);
        plan.steps[..turn].iter().for_each(|step| drop(self.say(0, Git::find().program(), plan, step)));
        fs::rename(&own, &base).expect("a folder can be renamed");
        for input in fewer(&step.input) {
            if untold.is_empty() {
                break;
            }
            copy_tree(&base, &own);
            let said = self.say(0, Git::find().program(), plan, &Step { input, ..step.clone() });
            untold.retain(|line| !said.err.lines().any(|told| told == *line));
            remove(&own);
        }
        remove(&base);
        fs::rename(&kept, &own).expect("a folder can be renamed");
        untold.is_empty()
    }

    fn copy(&self, copy: usize, plan: &Plan) -> PathBuf {
        git_dir(&self.root.path().join(COPIES[copy]), plan)
    }

    /// Runs a step in a copy, which is moved to the common path for that time.
    fn say(&self, copy: usize, program: &Path, plan: &Plan, step: &Step) -> Said {
        let (own, common) = (self.root.path().join(COPIES[copy]), self.root.path().join("now"));
        fs::rename(&own, &common).expect("a folder can be renamed");
        let dir = match &step.place {
            Place::Top => common.join("repo"),
            Place::GitDir => git_dir(&common, plan),
            Place::Tree(name) => common.join("trees").join(name.to_path_lossy()),
            Place::Outside => self.root.path().join("outside"),
        };
        let dir = if dir.is_dir() { dir } else { common.join("repo") };
        let mut command = bounded(program, plan);
        git::clean(&mut command, &dir);
        command.args(step.line().iter().map(|word| OsStr::from_bytes(word)));
        command.env("GIT_CEILING_DIRECTORIES", self.root.path());
        command.env("GIT_TEST_DATE_NOW", NOW.to_string());
        let git_dir = git_dir(&common, plan);
        command.env("CALLS", git_dir.join("CALLS"));
        for word in &step.environment {
            let word = with_git_dir(word, &git_dir);
            match word.split_once_str("=") {
                Some((name, value)) => command.env(OsStr::from_bytes(name), OsStr::from_bytes(value)),
                None => command.env_remove(OsStr::from_bytes(&word)),
            };
        }
        let output = git::run(command, &step.input.concat());
        fs::rename(&common, &own).expect("a folder can be renamed");
        Said::from(output)
    }

    fn build(&self, plan: &Plan) {
        self.build_copy(0, plan);
        let [git, other] = COPIES.map(|copy| self.root.path().join(copy));
        remove(&other);
        copy_tree(&git, &other);
    }

    fn build_copy(&self, copy: usize, plan: &Plan) {
        let (common, own) = (self.root.path().join("now"), self.root.path().join(COPIES[copy]));
        [&common, &own].into_iter().for_each(|old| remove(old));
        let template = self.template(plan);
        copy_tree(&template, &common);
        let mut maker = Maker { common: &common, plan, made: Vec::new() };
        plan.parts.iter().for_each(|part| maker.make(part));
        maker.flush();
        remove_locks(&git_dir(&common, plan), plan);
        fs::rename(&common, &own).expect("a folder can be renamed");
    }

    /// Returns an empty repository with all objects, which is created at the first use.
    fn template(&self, plan: &Plan) -> PathBuf {
        let (format, hash) = (plan.format.name(), plan.hash.name());
        let folder = self.root.path().join(format!("template-{format}-{hash}-{}", plan.bare));
        if !folder.exists() {
            fs::create_dir(&folder).expect("a new folder can be made");
            let mut init = Git::find().command(&folder);
            init.args(["init", "--quiet", "--template=", "--initial-branch=main"]);
            init.arg(format!("--ref-format={format}")).arg(format!("--object-format={hash}"));
            init.args(plan.bare.then_some("--bare")).arg("repo");
            git::run_ok(init, b"");
            let objects = git_dir(&folder, plan).join("objects");
            fs::remove_dir_all(&objects).expect("what was made can be removed");
            copy_tree(&self.objects(plan.hash).folder(), &objects);
        }
        folder
    }
}

/// Returns a command for the program. If steps have names that are so long that git may fill the disk with an endless
/// index, or messages for which git may enlarge its block for ever, the command is ended when it writes more than a few
/// megabytes to a file or has used 20 seconds of processor time.
fn bounded(program: &Path, plan: &Plan) -> Command {
    let is_one = |word: &BString| word.contains_str(LONG) || word.len() >= LONG_MESSAGE_BYTES;
    let is_long = |step: &Step| step.words.iter().chain(&step.input).any(is_one);
    if !plan.steps.iter().any(is_long) {
        return Command::new(program);
    }
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "ulimit -c 0; ulimit -f 8192; ulimit -t 20; exec \"$0\" \"$@\""]).arg(program);
    command
}

/// The length in bytes from which a word is taken for a reflog message that may make git enlarge a log block for ever.
/// Git does so with messages about as long as a block, and only with blocks of at least 1 KiB.
const LONG_MESSAGE_BYTES: usize = 900;

/// Letters that each name made by [`long_name`](super::surroundings::long_name) contains. Such a name may be too long
/// for the blocks of a table.
pub(super) const LONG: &str = "nnnnnnnnnn";

fn with_git_dir(text: &BString, git_dir: &Path) -> BString {
    text.replace(GIT_DIR, git_dir.as_os_str().as_bytes()).into()
}

fn remove(folder: &Path) {
    if folder.exists() {
        fs::remove_dir_all(folder).expect("what was made can be removed");
    }
}

/// Removes the locks that a git which crashed left while it built the repository. A step would wait for such a lock and
/// report its age, and both depend on the machine.
fn remove_locks(git_dir: &Path, plan: &Plan) {
    let is_part = |path: &String| plan.parts.iter().any(|part| matches!(part, Part::File(name, _) if name == path));
    for lock in files_below(git_dir).iter().filter(|path| path.ends_with(".lock") && !is_part(path)) {
        // A link to a folder lists the same lock a second time.
        let _ = fs::remove_file(git_dir.join(lock));
    }
}

/// Returns reduced forms of the input: without one of the requests, or with only one or two of them.
fn fewer(input: &[BString]) -> Vec<Vec<BString>> {
    let words = [&b"start"[..], b"prepare", b"commit", b"abort"];
    let is_no_request = |piece: &BString| words.iter().any(|word| piece.starts_with(word));
    // An option belongs to the request that follows it, and is kept or left out with it.
    let is_option = |at: &usize| input.get(*at).is_some_and(|piece| piece.starts_with(b"option "));
    let request = |at: usize| (at..input.len()).find(|at| !is_option(at)).unwrap_or(at);
    let kept = |keeps: &dyn Fn(usize) -> bool| {
        let pieces = input.iter().enumerate().filter(|(at, piece)| keeps(request(*at)) || is_no_request(piece));
        pieces.map(|(_, piece)| piece.clone()).collect::<Vec<_>>()
    };
    let all = || 0..input.len();
    let without = all().map(|left_out| kept(&|at| at != left_out));
    let pairs = all().flat_map(|one| (one..input.len()).map(move |two| (one, two)));
    without.chain(pairs.map(|(one, two)| kept(&|at| at == one || at == two))).collect()
}

fn git_dir(folder: &Path, plan: &Plan) -> PathBuf {
    if plan.bare { folder.join("repo") } else { folder.join("repo/.git") }
}

/// Creates the parts of a repository, with consecutive refs in one transaction.
struct Maker<'a> {
    common: &'a Path,
    plan: &'a Plan,
    made: Vec<BString>,
}

impl Maker<'_> {
    fn make(&mut self, part: &Part) {
        let is_good = |name: &BString| RefName::new(&name[..]).is_ok() && name.contains(&b'/');
        let git_dir = git_dir(self.common, self.plan);
        let path = |path: &BString| git_dir.join(OsStr::from_bytes(path));
        let filled = |text: &BString| with_git_dir(text, &git_dir);
        match part {
            Part::Ref(name, id) if is_good(name) => {
                self.made.push([b"update ", &name[..], b"\0", id, b"\0\0"].concat().into());
                return;
            }
            Part::Symbolic(name, target) if is_good(name) && is_good(target) => {
                self.made.push([b"symref-update ", &name[..], b"\0", target, b"\0\0"].concat().into());
                return;
            }
            _ => self.flush(),
        }
        let git = |words: &[&[u8]]| drop(self.git(words, b""));
        match part {
            Part::Ref(name, id) => self.tool(name.as_bstr(), id.as_bstr()),
            Part::Symbolic(name, target) => git(&[b"symbolic-ref", name, target]),
            Part::Log(name, [old, new], seconds, message) => {
                let mut command = Git::find().command(&self.common.join("repo"));
                command.env("GIT_COMMITTER_DATE", format!("{seconds} +0000")).args(["reflog", "write"]);
                command.args([name, old, new, message].map(|word| OsStr::from_bytes(word)));
                git::run(command, b"");
            }
            Part::Pack => git(&[b"pack-refs", b"--all"]),
            Part::Config(key, value) => git(&[b"config", b"--add", key, &filled(value)]),
            Part::Tree(name, at) => {
                let folder = self.common.join("trees").join(name.to_path_lossy());
                git(&[b"worktree", b"add", b"-q", b"-f", folder.as_os_str().as_bytes(), at]);
            }
            Part::RawConfig(lines) => {
                let config = path(&"config".into());
                let text = fs::read(&config).unwrap_or_default();
                let _ = fs::write(config, [&text[..], &filled(lines)].concat());
            }
            Part::File(name, content) => {
                let _ = path(name).parent().map(fs::create_dir_all);
                let _ = fs::write(path(name), &filled(content)[..]);
            }
            Part::Program(name, content) => {
                let _ = path(name).parent().map(fs::create_dir_all);
                let _ = fs::write(path(name), &filled(content)[..]);
                let _ = fs::set_permissions(path(name), fs::Permissions::from_mode(0o755));
            }
            Part::Folder(name) => drop(fs::create_dir_all(path(name))),
            Part::Link(name, target) => {
                let _ = path(name).parent().map(fs::create_dir_all);
                let _ = std::os::unix::fs::symlink(OsStr::from_bytes(target), path(name));
            }
        }
    }

    fn flush(&mut self) {
        let input = std::mem::take(&mut self.made);
        if input.is_empty() {
            return;
        }
        let words: &[&[u8]] = &[b"update-ref", b"--no-deref", b"--stdin", b"-z", b"--batch-updates"];
        let all = self.git(words, &input.concat());
        let said = match all.status.success() {
            true => all.stdout,
            false => input.iter().flat_map(|one| self.git(words, one).stdout).collect(),
        };
        // Git refuses to make a ref of a missing object, and a branch that is no commit.
        for refused in said.lines().filter_map(|line| line.strip_suffix(b" invalid new value provided")) {
            if let [b"rejected", name, id, _] = refused.split_str(" ").collect::<Vec<_>>()[..] {
                self.tool(name.as_bstr(), id.as_bstr());
            }
        }
    }

    fn git(&self, words: &[&[u8]], input: &[u8]) -> Output {
        let mut command = Git::find().command(&self.common.join("repo"));
        command.args(words.iter().map(|word| OsStr::from_bytes(word)));
        git::run(command, input)
    }

    /// Creates a ref without a check of its name and its object.
    fn tool(&self, name: &BStr, id: &BStr) {
        let mut command = Command::new(Git::find().test_tool());
        git::clean(&mut command, &self.common.join("repo"));
        let zero = "0".repeat(id.len());
        command.args(["ref-store", "main", "update-ref", "made"]);
        command.arg(OsStr::from_bytes(name)).arg(OsStr::from_bytes(id)).arg(zero);
        command.arg("REF_SKIP_OID_VERIFICATION,REF_SKIP_REFNAME_VERIFICATION");
        git::run(command, b"");
    }
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let code = output.status.code().or(output.status.signal().map(|signal| Said::SIGNALS + signal));
        Said { out: output.stdout.into(), err: output.stderr.into(), code: code.unwrap_or(-1) }
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit code {}\n-- stdout\n{}-- stderr\n{}", self.code, self.out, self.err)
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [git, other] = &self.said;
        writeln!(f, "step {}\n==== git: {git}\n==== refdb: {other}", self.step + 1)?;
        self.left.iter().try_for_each(|it| writeln!(f, "differs: {}: git {:?}, refdb {:?}", it.name, it.git, it.other))
    }
}

impl fmt::Debug for Bench {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bench").field("program", &self.program).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RefFormat;

    /// Previously, git refused them, so that no plan had such refs.
    #[test]
    fn refs_of_missing_objects_and_branches_that_are_no_commits_are_made() {
        let bench = Bench::new("git", &[]);
        for format in [RefFormat::Files, RefFormat::Reftable] {
            let objects = bench.objects(HashKind::Sha1);
            let made = |name: &str, id: &BString| Part::Ref(name.into(), id.clone());
            let parts = vec![
                made("refs/heads/missing", &objects.missing),
                made("refs/tags/good", &objects.commits[0]),
                made("refs/heads/tag", &objects.others[0]),
            ];
            let plan = Plan { format, hash: HashKind::Sha1, bare: true, parts, steps: Vec::new() };
            bench.build(&plan);
            let state = State::of(&bench.copy(0, &plan));
            let names: Vec<_> = state.names().map(|name| name.to_string()).collect();
            for name in ["refs/heads/missing", "refs/tags/good", "refs/heads/tag"] {
                assert!(names.iter().any(|known| known.contains(name)), "{name} in {names:?}");
            }
        }
    }
}
