use super::vocabulary::{Vocabulary, flags};
use crate::Rng;
use bstr::{BString, ByteSlice};

/// Times for the expiry of entries. The entries with which a plan begins are less than 120 days old.
const TIMES: &[&str] = &[
    "now",
    "all",
    "never",
    "30.days.ago",
    "2.weeks",
    "yesterday",
    "1.month.ago",
    "2023-11-01",
    "@1698000000",
    "noon",
    "last friday",
    "false",
    "0",
    "",
    "bogus",
    "1.year",
];

/// Generates the arguments of `reflog`.
pub(super) fn random(rng: &mut Rng, words: &Vocabulary<'_>) -> Vec<BString> {
    let (subcommand, mut line): (&str, Vec<BString>) = match rng.below(20) {
        0 => ("list", if rng.one_in(12) { vec![words.name(rng)] } else { Vec::new() }),
        2..4 => ("exists", some(rng, words, 1)),
        1 | 4 => ("show", show(rng, words)),
        5..9 => ("delete", delete(rng, words)),
        9..11 => ("drop", drop(rng, words)),
        11..16 => ("expire", expire(rng, words)),
        16..19 => ("write", write(rng, words)),
        _ => (*rng.pick(&["", "nothing", "Expire", "--all", "main"]), Vec::new()),
    };
    line.insert(0, subcommand.into());
    line
}

/// Generates names, usually as many as the command expects.
fn some(rng: &mut Rng, words: &Vocabulary<'_>, right: usize) -> Vec<BString> {
    let count = if rng.one_in(8) { rng.below(4) } else { right };
    (0..count).map(|_| name(rng, words)).collect()
}

/// Generates the full or abbreviated name of a ref that may have a reflog.
fn name(rng: &mut Rng, words: &Vocabulary<'_>) -> BString {
    let name = words.name(rng);
    match rng.below(8) {
        0 => name.splitn_str(3, "/").last().unwrap_or_default().into(),
        1 => (*rng.pick(&["HEAD", "@", "main"])).into(),
        _ => name,
    }
}

fn show(rng: &mut Rng, words: &Vocabulary<'_>) -> Vec<BString> {
    const OPTIONS: &[&str] = &[
        "-2",
        "-n1",
        "--skip=1",
        "--date=unix",
        "--date=iso",
        "--no-abbrev",
        "--abbrev=10",
        "--no-abbrev-commit",
        "--oneline",
        "-z",
        "--no-decorate",
        "--format=%h %gd %gs",
        "--format=%H %gD %gn %ge",
        "--pretty=format:%gs",
        "--all",
        "--format=%s",
        "--stat",
    ];
    let mut line: Vec<BString> = (0..rng.below(3)).map(|_| (*rng.pick(OPTIONS)).into()).collect();
    if !rng.one_in(4) {
        let which = *rng.pick(&["", "", "", "@{0}", "@{1}", "@{2}", "@{now}", "@{30.days.ago}", "@{u}", "~1"]);
        line.push([&name(rng, words)[..], which.as_bytes()].concat().into());
    }
    line.extend(flags(rng, &["--"], 6));
    line
}

fn delete(rng: &mut Rng, words: &Vocabulary<'_>) -> Vec<BString> {
    let mut line = flags(rng, &["--rewrite", "--updateref", "--verbose"], 3);
    line.extend(flags(rng, &["-n", "--dry-run", "--no-rewrite"], 10));
    let count = if rng.one_in(6) { rng.below(4) } else { 1 };
    line.extend((0..count).map(|_| {
        let which = *rng.pick(&[
            "@{0}",
            "@{0}",
            "@{1}",
            "@{1}",
            "@{2}",
            "@{9}",
            "@{-1}",
            "@{30.days.ago}",
            "@{yesterday}",
            "@{bogus}",
            "@{}",
            "@{0",
            "",
            "@{now}",
        ]);
        [&name(rng, words)[..], which.as_bytes()].concat().into()
    }));
    line
}

fn drop(rng: &mut Rng, words: &Vocabulary<'_>) -> Vec<BString> {
    let mut line = flags(rng, &["--all"], 4);
    line.extend(flags(rng, &["--single-worktree"], 6));
    let right = usize::from(line.is_empty());
    line.extend(some(rng, words, right));
    line
}

fn expire(rng: &mut Rng, words: &Vocabulary<'_>) -> Vec<BString> {
    let mut line = flags(rng, &["--rewrite", "--updateref", "--verbose"], 4);
    line.extend(flags(rng, &["-n", "--stale-fix", "--no-verbose"], 12));
    for option in ["--expire", "--expire-unreachable"] {
        if rng.one_in(2) {
            line.push(format!("{option}={}", rng.pick(TIMES)).into());
        }
    }
    let all = rng.one_in(2);
    line.extend(all.then(|| "--all".into()));
    line.extend(flags(rng, &["--single-worktree"], 6));
    rng.shuffle(&mut line);
    let right = usize::from(!all);
    line.extend(some(rng, words, right));
    line
}

fn write(rng: &mut Rng, words: &Vocabulary<'_>) -> Vec<BString> {
    let value = |rng: &mut Rng| if rng.one_in(10) { words.revision(rng) } else { words.id(rng) };
    let mut line = vec![words.name(rng), value(rng), value(rng), words.message(rng)];
    if rng.one_in(20) {
        line.truncate(rng.below(4));
    }
    line
}
