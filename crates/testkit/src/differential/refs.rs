use super::{
    for_each_ref,
    vocabulary::{Vocabulary, flags},
};
use crate::{Git, Rng};
use bstr::BString;

/// Generates the arguments and the input of `refs`.
pub(super) fn random(rng: &mut Rng, words: &Vocabulary<'_>) -> (Vec<BString>, Vec<BString>) {
    let changes = Git::find().version() >= (2, 56);
    let (subcommand, (mut line, input)) = match rng.below(if changes { 30 } else { 20 }) {
        0..3 => ("list", for_each_ref::random(rng, words)),
        3..6 => ("exists", (exists(rng, words), Vec::new())),
        6..12 => ("verify", (flags(rng, &["--strict", "--verbose"], 3), Vec::new())),
        12..15 => ("optimize", (pack_refs(rng, words), Vec::new())),
        15..19 => ("migrate", (migrate(rng), Vec::new())),
        19 if changes => (*rng.pick(&["", "lists", "--verify"]), Default::default()),
        19 => ("exists", Default::default()),
        20..23 => ("create", (change(rng, words, 2), Vec::new())),
        23..25 => ("delete", (change(rng, words, 1), Vec::new())),
        25..28 => ("update", (change(rng, words, 2), Vec::new())),
        _ => ("rename", (rename(rng, words), Vec::new())),
    };
    line.insert(0, subcommand.into());
    (line, input)
}

fn exists(rng: &mut Rng, words: &Vocabulary<'_>) -> Vec<BString> {
    let count = if rng.one_in(10) { rng.below(3) } else { 1 };
    (0..count).map(|_| words.name(rng)).collect()
}

fn migrate(rng: &mut Rng) -> Vec<BString> {
    let mut line = flags(rng, &["--no-reflog"], 5);
    line.extend(flags(rng, &["--dry-run", "--reflog", "more"], 12));
    if !rng.one_in(20) {
        line.push(format!("--ref-format={}", rng.pick(&["files", "files", "reftable", "reftable", "bogus"])).into());
    }
    line
}

/// Generates options, a name and values. The name and the values are `least` words or one more, or now and then any
/// number up to four.
fn change(rng: &mut Rng, words: &Vocabulary<'_>, least: usize) -> Vec<BString> {
    let mut line = flags(rng, &["--no-deref", "--create-reflog"], 6);
    if rng.one_in(3) {
        line.push([&b"--message="[..], &words.message(rng)].concat().into());
    }
    let count = if rng.one_in(12) { rng.below(5) } else { least + rng.below(2) };
    line.extend((0..count).map(|at| if at == 0 { words.name(rng) } else { words.revision(rng) }));
    line
}

fn rename(rng: &mut Rng, words: &Vocabulary<'_>) -> Vec<BString> {
    let mut line = Vec::new();
    if rng.one_in(3) {
        line.push([&b"--message="[..], &words.message(rng)].concat().into());
    }
    let count = if rng.one_in(12) { rng.below(4) } else { 2 };
    line.extend((0..count).map(|_| words.name(rng)));
    line
}

/// Generates the arguments of `pack-refs`.
pub(super) fn pack_refs(rng: &mut Rng, words: &Vocabulary<'_>) -> Vec<BString> {
    let mut line = flags(rng, &["--all", "--no-prune", "--auto", "--prune"], 3);
    for option in ["--include", "--exclude"] {
        if rng.one_in(4) {
            line.extend([option.into(), words.pattern(rng)]);
        }
    }
    line
}
