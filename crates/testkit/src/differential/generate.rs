use super::{
    Areas, Bench, Place, Plan, Step, for_each_ref, lists, parts, reflogs, refs, surroundings, update_ref,
    vocabulary::{Vocabulary, flags},
};
use crate::{Repo, Rng, names};
use bstr::BString;

impl Plan {
    /// Generates a plan with this number of steps. With the same version of git, the same seed and areas give the same
    /// plan.
    pub fn random(seed: u64, steps: usize, areas: Areas, bench: &Bench) -> Self {
        let rng = &mut Rng::new(seed);
        let (format, hash) = *rng.pick(&Repo::KINDS);
        let bare = rng.one_in(4);
        let mut words = Vocabulary::random(rng, bench.objects(hash), areas);
        let parts = parts::random(rng, &mut words, format, bare);
        let steps = (0..steps).map(|_| step(rng, &words)).collect();
        Plan { format, hash, bare, parts, steps }
    }
}

fn step(rng: &mut Rng, words: &Vocabulary<'_>) -> Step {
    let is_other = words.areas.lists_and_logs && !rng.one_in(3) || words.areas.surroundings && rng.one_in(2);
    let (command, (mut arguments, input)) = if is_other { list_or_log(rng, words) } else { host(rng, words) };
    if rng.one_in(60) {
        insert_odd(rng, &mut arguments);
    }
    let (place, globals) = (place(rng, words), globals(rng));
    let environment = if words.areas.surroundings { surroundings::environment(rng) } else { Vec::new() };
    Step { place, environment, globals, command, words: arguments, input }
}

/// A command, and its arguments and input.
type Line = (&'static str, (Vec<BString>, Vec<BString>));

/// Generates a `reflog`, `refs`, `branch` or `tag` command.
fn list_or_log(rng: &mut Rng, words: &Vocabulary<'_>) -> Line {
    match rng.below(20) {
        0..9 => ("reflog", (reflogs::random(rng, words), Vec::new())),
        9..14 => ("refs", refs::random(rng, words)),
        14..17 => ("branch", (lists::branch(rng, words), Vec::new())),
        _ => ("tag", (lists::tag(rng, words), Vec::new())),
    }
}

/// Generates one of the commands that a server needs.
fn host(rng: &mut Rng, words: &Vocabulary<'_>) -> Line {
    match rng.below(100) {
        0..20 => ("update-ref", (update_ref::single(rng, words), Vec::new())),
        20..45 => ("update-ref", update_ref::batch(rng, words)),
        45..57 => ("symbolic-ref", (symbolic_ref(rng, words), Vec::new())),
        57..69 => ("show-ref", show_ref(rng, words)),
        69..91 => ("for-each-ref", for_each_ref::random(rng, words)),
        91..95 => ("pack-refs", (refs::pack_refs(rng, words), Vec::new())),
        _ => ("check-ref-format", (check_ref_format(rng, words), Vec::new())),
    }
}

/// Inserts a rare argument at a random place, or replaces all arguments by it.
fn insert_odd(rng: &mut Rng, arguments: &mut Vec<BString>) {
    let odd = [
        "-h",
        "--help-all",
        "--foo",
        "-X",
        "--no-foo",
        "--git-completion-helper",
        "--git-completion-helper-all",
        "--",
        "--end-of-options",
        "-",
    ];
    let at = rng.below(arguments.len() + 1);
    let word = BString::from(*rng.pick(&odd));
    if rng.one_in(2) { *arguments = vec![word] } else { arguments.insert(at, word) }
}

fn place(rng: &mut Rng, words: &Vocabulary<'_>) -> Place {
    match rng.below(20) {
        0 => Place::GitDir,
        1..5 if !words.trees.is_empty() => Place::Tree(rng.pick(&words.trees).clone()),
        5 if rng.one_in(3) => Place::Outside,
        _ => Place::Top,
    }
}

fn globals(rng: &mut Rng) -> Vec<BString> {
    if !rng.one_in(15) {
        return Vec::new();
    }
    let choices: &[&[&str]] = &[
        &["-c", "core.logAllRefUpdates=always"],
        &["-c", "core.logAllRefUpdates=false"],
        &["-c", "core.warnAmbiguousRefs=false"],
        &["-c", "core.abbrev=5"],
        &["-c", "color.ui=always"],
        &["-c", "core.preferSymlinkRefs=false"],
        &["-c", "user.name="],
        &["-C", "."],
        &["--no-pager"],
        &["--namespace=x"],
        &["--no-replace-objects"],
        &["--literal-pathspecs"],
        &["-c", "gc.auto=bogus"],
        &["-c", "versionsort.suffix=-rc"],
    ];
    rng.pick(choices).iter().map(|word| BString::from(*word)).collect()
}

fn symbolic_ref(rng: &mut Rng, words: &Vocabulary<'_>) -> Vec<BString> {
    let mut line = flags(rng, &["-q", "--short", "--no-recurse", "--recurse", "--quiet"], 6);
    if rng.one_in(5) {
        line.push("-m".into());
        line.push(words.message(rng));
    }
    match rng.below(10) {
        0..2 => line.extend(["-d".into(), words.name(rng)]),
        2..6 => line.push(words.name(rng)),
        6..9 => line.extend([words.name(rng), words.name(rng)]),
        _ => line.extend((0..rng.below(4)).map(|_| words.name(rng))),
    }
    line
}

fn show_ref(rng: &mut Rng, words: &Vocabulary<'_>) -> (Vec<BString>, Vec<BString>) {
    let mut line = flags(rng, &["--head", "-d", "-s", "--tags", "--branches", "-q"], 5);
    line.extend(flags(
        rng,
        &[
            "--abbrev",
            "--hash=7",
            "--hash",
            "--abbrev=0",
            "--abbrev=12",
            "--dereference",
            "--heads",
            "--no-tags",
            "--hash=x",
            "--no-hash",
        ],
        20,
    ));
    let some = |rng: &mut Rng, count: usize| (0..rng.below(count)).map(|_| words.name(rng)).collect::<Vec<_>>();
    match rng.below(8) {
        0..2 => line.extend(["--verify".into()].into_iter().chain(some(rng, 4))),
        2 => line.extend(["--exists".into(), words.name(rng)]),
        3 => {
            line.push(if rng.one_in(2) {
                "--exclude-existing".into()
            } else {
                format!("--exclude-existing={}", words.pattern(rng)).into()
            });
            let input =
                (0..rng.below(5)).map(|_| format!("{}{}\n", rng.pick(&["", "abc ", "a\tb "]), words.name(rng)).into());
            return (line, input.collect());
        }
        4 => line.extend((0..rng.below(3)).map(|_| words.pattern(rng))),
        5 => line.extend(
            some(rng, 3).into_iter().map(|name| name.rsplit(|byte| *byte == b'/').next().unwrap_or_default().into()),
        ),
        _ => {}
    }
    (line, Vec::new())
}

fn check_ref_format(rng: &mut Rng, words: &Vocabulary<'_>) -> Vec<BString> {
    let options =
        ["--normalize", "--allow-onelevel", "--no-allow-onelevel", "--refspec-pattern", "--print", "--branch"];
    let mut line = flags(rng, &options, 6);
    line.push(match rng.below(4) {
        0 => rng.pick(&names::invalid()).iter().copied().filter(|byte| *byte != 0).collect::<Vec<u8>>().into(),
        1 => format!("@{{-{}}}", rng.below(4)).into(),
        2 => words.pattern(rng),
        _ => words.name(rng),
    });
    line
}
