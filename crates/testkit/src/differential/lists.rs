use super::{
    for_each_ref,
    vocabulary::{Vocabulary, flags},
};
use crate::Rng;
use bstr::BString;

/// Fields by which lists are sorted.
const KEYS: &[&str] = &[
    "refname",
    "-refname",
    "version:refname",
    "objectsize",
    "-committerdate",
    "creatordate",
    "x",
    "-objectname",
    "HEAD",
];

/// Formats in which lists show a ref.
const FORMATS: &[&str] = &[
    "%(refname)",
    "%(refname:short)",
    "%(HEAD) %(refname:short)",
    "%(if)%(HEAD)%(then)*%(end)%(objectname:short)",
    "%(symref)",
    "",
    "%(x)",
    "%(contents:subject)",
    "%(align:12)%(refname)%(end)|",
];

/// Generates the arguments of a `branch` that lists branches, or sometimes only shows the current one.
pub(super) fn branch(rng: &mut Rng, words: &Vocabulary<'_>) -> Vec<BString> {
    if rng.one_in(15) {
        return vec!["--show-current".into()];
    }
    let mut line = flags(rng, &["-v", "-vv", "-r", "-a", "--all", "--remotes"], 6);
    line.extend(flags(rng, &["--abbrev=9", "--no-abbrev", "--abbrev", "--abbrev=x"], 25));
    both(rng, words, &mut line);
    line
}

/// Generates the arguments of a `tag` that lists.
pub(super) fn tag(rng: &mut Rng, words: &Vocabulary<'_>) -> Vec<BString> {
    let mut line = flags(rng, &["-n", "-n2", "-n0"], 8);
    line.extend(flags(rng, &["-nx", "-n 3"], 40));
    both(rng, words, &mut line);
    line
}

/// Adds options that `branch` and `tag` have in common. Patterns are added only with `--list`, because without that
/// option they would be the names of refs to create.
fn both(rng: &mut Rng, words: &Vocabulary<'_>, line: &mut Vec<BString>) {
    line.extend(flags(rng, &["-i", "--omit-empty", "--color", "--no-color", "--color=auto", "--color=x"], 25));
    line.extend(flags(rng, &["--column", "--no-column", "--column=row,dense", "--column=plain", "--column=x"], 20));
    if rng.one_in(4) {
        let format: BString = match rng.one_in(3) {
            true => for_each_ref::format(rng, 0).into(),
            false => (*rng.pick(FORMATS)).into(),
        };
        line.push([&b"--format="[..], &format].concat().into());
    }
    while rng.one_in(5) {
        line.push(format!("--sort={}", rng.pick(KEYS)).into());
    }
    for option in ["--points-at", "--contains", "--no-contains", "--merged", "--no-merged"] {
        if rng.one_in(12) {
            line.push([option.as_bytes(), b"=", &words.revision(rng)].concat().into());
        }
    }
    rng.shuffle(line);
    if rng.one_in(3) {
        line.insert(0, "--list".into());
        line.extend((0..rng.below(3)).map(|_| words.pattern(rng)));
    }
}
