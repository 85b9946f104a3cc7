use super::{Part, surroundings, vocabulary::Vocabulary};
use crate::{RefFormat, Rng};
use bstr::{BString, ByteSlice};
use refdb_types::is_below;

/// Settings, some of which do not concern refs, and some of which are invalid.
const SETTINGS: &[(&str, &str)] = &[
    ("core.logAllRefUpdates", "always"),
    ("core.logAllRefUpdates", "false"),
    ("core.logAllRefUpdates", "true"),
    ("core.logAllRefUpdates", "Always"),
    ("core.warnAmbiguousRefs", "false"),
    ("core.abbrev", "9"),
    ("core.abbrev", "no"),
    ("core.abbrev", "bogus"),
    ("core.packedRefsTimeout", "x"),
    ("core.filesRefLockTimeout", "10"),
    ("core.sharedRepository", "group"),
    ("core.quotePath", "perhaps"),
    ("core.compression", "99"),
    ("core.fsync", "reference"),
    ("core.fsync", "bogus"),
    ("core.editor", "x"),
    ("core.symlinks", "maybe"),
    ("core.bigFileThreshold", "many"),
    ("core.looseCompression", "-7"),
    ("core.preferSymlinkRefs", "false"),
    ("core.ignoreCase", "what"),
    ("core.commentChar", ""),
    ("core.whitespace", "x"),
    ("core.eol", "x"),
    ("core.attributesFile", "x"),
    ("color.ui", "sometimes"),
    ("color.ui", "always"),
    ("color.branch.x", "y"),
    ("color.advice", "maybe"),
    ("i18n.commitEncoding", "latin-1"),
    ("user.useConfigOnly", "perhaps"),
    ("gc.auto", "x"),
    ("pack.packSizeLimit", "x"),
    ("reftable.blockSize", "x"),
    ("reftable.blockSize", "512"),
    ("reftable.lockTimeout", "x"),
    ("reftable.indexObjects", "x"),
    ("reftable.geometricFactor", "1"),
    ("reftable.restartInterval", "x"),
    ("versionsort.suffix", "-rc"),
    ("push.default", "bogus"),
    ("push.default", "upstream"),
    ("transfer.hideRefs", "refs/heads/a"),
    ("remote.origin.url", "/nowhere"),
    ("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"),
    ("remote.origin.fetch", "bogus:*:"),
    ("remote.pushDefault", "origin"),
    ("branch.main.remote", "origin"),
    ("branch.main.merge", "refs/heads/main"),
    ("branch.a.remote", "."),
    ("branch.a.merge", "refs/heads/main"),
    ("branch.b.rebase", "perhaps"),
    ("branch.autoSetupMerge", "x"),
    ("extensions.unknown", "x"),
    ("advice.x", "maybe"),
    ("log.date", "x"),
    ("mailmap.file", "x"),
    ("gpg.format", "x"),
];

/// Settings for reflogs and lists.
const LIST_SETTINGS: &[(&str, &str)] = &[
    ("gc.reflogExpire", "2.weeks"),
    ("gc.reflogExpire", "never"),
    ("gc.reflogExpire", "bogus"),
    ("gc.reflogExpireUnreachable", "1.day"),
    ("gc.reflogExpireUnreachable", "never"),
    ("gc.refs/heads/*.reflogExpire", "now"),
    ("gc.refs/tags/*.reflogExpireUnreachable", "now"),
    ("gc.refs/heads/*.reflogExpire", "bogus"),
    ("core.logAllRefUpdates", "always"),
    ("column.ui", "always"),
    ("column.ui", "bogus"),
    ("column.branch", "always,dense"),
    ("column.tag", "row"),
    ("column.tag", "bogus"),
    ("branch.sort", "-refname"),
    ("branch.sort", "bogus"),
    ("tag.sort", "version:refname"),
    ("tag.sort", "bogus"),
    ("color.branch", "always"),
    ("color.branch", "bogus"),
    ("color.branch.local", "red"),
    ("color.branch.current", "bogus"),
    ("color.ui", "always"),
    ("color.ui", "bogus"),
    ("tag.gpgSign", "bogus"),
    ("tag.forceSignAnnotated", "bogus"),
    ("core.abbrev", "9"),
    ("core.abbrev", "bogus"),
    ("pager.branch", "false"),
    ("pager.tag", "bogus"),
    ("branch.main.remote", "origin"),
    ("branch.main.merge", "refs/heads/main"),
    ("branch.main.merge", ""),
    ("branch.a.remote", "."),
    ("branch.a.merge", "refs/heads/main"),
    ("remote.origin.url", "/nowhere"),
    ("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"),
    ("remote.origin.fetch", "bogus:*:"),
];

/// The time at which steps run, in seconds since 1970.
pub(super) const NOW: u64 = 1_703_000_000;
const DAY: u64 = 24 * 60 * 60;

const ROOT: &[&str] = &["ORIG_HEAD", "MERGE_HEAD", "HEAD", "refs/heads/main"];

/// Generates the parts of a repository.
pub(super) fn random(rng: &mut Rng, words: &mut Vocabulary<'_>, format: RefFormat, bare: bool) -> Vec<Part> {
    let mut parts = Vec::new();
    for _ in 0..rng.below(8).saturating_sub(5) {
        let (key, value) = *rng.pick(SETTINGS);
        parts.push(Part::Config(key.into(), value.into()));
    }
    if rng.one_in(30) {
        let lines =
            rng.pick(&["[core]\n\tbare\n", "[x\n", "[user]\n\tname\n", "[core]\n\trepositoryFormatVersion = 7\n"]);
        parts.push(Part::RawConfig((*lines).into()));
    }
    for turn in 0..6 + rng.below(12) {
        if turn > 0 && rng.one_in(12) {
            parts.push(Part::Pack);
        }
        parts.push(match rng.below(9) {
            0 if words.areas.broken => Part::Symbolic(words.name(rng), words.name(rng)),
            0 => Part::Symbolic(rng.pick(&words.names).clone(), words.name(rng)),
            1 => Part::Ref((*rng.pick(ROOT)).into(), rng.pick(&words.objects.commits).clone()),
            _ => Part::Ref(rng.pick(&words.names).clone(), good_id(rng, words)),
        });
    }
    if words.areas.surroundings {
        logs_and_settings(rng, words, &mut parts);
        surroundings::parts(rng, &mut parts);
    }
    if words.areas.lists_and_logs {
        logs_and_settings(rng, words, &mut parts);
    }
    if !bare {
        for name in ["one", "two"] {
            if rng.one_in(3) {
                parts.push(Part::Tree(name.into(), words.revision(rng)));
                words.trees.push(name.into());
            }
        }
    }
    if words.areas.broken {
        for _ in 0..rng.below(4).saturating_sub(1) {
            parts.push(broken(rng, words, format));
        }
    }
    if rng.one_in(8) {
        parts.push(Part::Folder(format!("{}/empty", words.name(rng)).into()));
    }
    keep_possible(&mut parts);
    replacements(&mut rng.clone(), words, &mut parts);
    parts
}

/// Adds replacement objects to one plan in five. A commit is replaced by one that precedes it in the list, because git
/// 2.55 does not terminate if replacements form a circle.
fn replacements(rng: &mut Rng, words: &Vocabulary<'_>, parts: &mut Vec<Part>) {
    let (commits, tags) = (&words.objects.commits, &words.objects.others[..2]);
    if !rng.one_in(5) {
        return;
    }
    let mut replace = |old: &BString, new: &BString| {
        parts.push(Part::Ref(format!("refs/replace/{old}").into(), new.clone()));
    };
    for _ in 0..1 + rng.below(2) {
        let at = 1 + rng.below(commits.len() - 1);
        replace(&commits[at], &commits[rng.below(at)]);
    }
    if rng.one_in(3) {
        replace(&tags[1], &tags[0]);
    }
}

/// Adds reflogs whose entries have various ages, and settings for lists and for the expiry of reflogs.
fn logs_and_settings(rng: &mut Rng, words: &Vocabulary<'_>, parts: &mut Vec<Part>) {
    for _ in 0..rng.below(7).saturating_sub(3) {
        let (key, value) = *rng.pick(LIST_SETTINGS);
        parts.push(Part::Config(key.into(), value.into()));
    }
    for _ in 0..rng.below(4) {
        let name = if rng.one_in(4) { "HEAD".into() } else { rng.pick(&words.names).clone() };
        let mut old = words.objects.zero.clone();
        let mut age_days = 20 + rng.below(100) as u64;
        for _ in 0..1 + rng.below(5) {
            let new = if rng.one_in(8) { words.id(rng) } else { rng.pick(&words.objects.commits).clone() };
            let message = words.message(rng);
            parts.push(Part::Log(name.clone(), [old, new.clone()], NOW - age_days * DAY, message));
            old = if rng.one_in(6) { words.id(rng) } else { new };
            age_days -= rng.below(age_days as usize + 1) as u64;
        }
    }
}

/// Removes from packed-refs the lines that would make one name both a ref and a folder of other refs. Git lists such
/// refs but does not find them by name, so there is no result to compare with.
fn keep_possible(parts: &mut [Part]) {
    let name = |part: &Part| match part {
        Part::Ref(name, _) | Part::Symbolic(name, _) | Part::File(name, _) | Part::Link(name, _) => Some(name.clone()),
        _ => None,
    };
    let mut names: Vec<BString> = parts.iter().filter_map(name).collect();
    for part in parts {
        let Part::File(path, text) = part else { continue };
        if path != "packed-refs" {
            continue;
        }
        let mut is_possible = |line: &&[u8]| {
            let Some((_, name)) = line.trim_ascii_end().split_once_str(" refs/") else { return true };
            let name = [&b"refs/"[..], name].concat();
            let fits = names.iter().all(|other| !is_below(&name, other) && !is_below(other, &name));
            names.extend(fits.then(|| name.into()));
            fits
        };
        *text = text.lines_with_terminator().filter(|line| is_possible(line)).collect::<Vec<_>>().concat().into();
    }
}

fn good_id(rng: &mut Rng, words: &Vocabulary<'_>) -> BString {
    if words.areas.surroundings && rng.one_in(2) {
        return rng.pick(&words.objects.odd).clone();
    }
    if rng.one_in(5) { rng.pick(&words.objects.others).clone() } else { rng.pick(&words.objects.commits).clone() }
}

/// Generates a packed-refs file with lines in random order, which does not claim to be sorted, as other tools write it.
fn packed_refs(rng: &mut Rng, words: &Vocabulary<'_>) -> BString {
    let mut text = BString::from(*rng.pick(&["", "", "# pack-refs with: peeled fully-peeled \n"]));
    let mut names: Vec<&BString> = words.names.iter().filter(|name| name.starts_with(b"refs/")).collect();
    names.sort_unstable();
    names.dedup();
    rng.shuffle(&mut names);
    for name in names.into_iter().take(1 + rng.below(6)) {
        text.extend([&rng.pick(&words.objects.commits)[..], b" ", name, b"\n"].concat());
    }
    text
}

/// Generates a broken or unusual part, such as an accident or another tool leaves behind.
fn broken(rng: &mut Rng, words: &Vocabulary<'_>, format: RefFormat) -> Part {
    let name = if rng.one_in(5) { words.name(rng) } else { format!("refs/heads/broken-{}", rng.below(3)).into() };
    if format == RefFormat::Reftable || rng.one_in(3) {
        return match rng.below(3) {
            0 => Part::Ref(name, words.objects.missing.clone()),
            1 => Part::Ref("refs/heads/bad..name".into(), rng.pick(&words.objects.commits).clone()),
            _ => Part::Ref(name, rng.pick(&words.objects.others).clone()),
        };
    }
    let commit = rng.pick(&words.objects.commits);
    let targets = ["main", "../tags/v1", "refs/heads/main", "nowhere", "broken-0"];
    if rng.one_in(4) {
        return Part::File("packed-refs".into(), packed_refs(rng, words));
    }
    match rng.below(12) {
        0 => Part::File(name, "".into()),
        1 => Part::File(name, "garbage\n".into()),
        2 => Part::File(name, format!("{commit} and more\n").into()),
        3 => Part::File(name, commit.clone()),
        4 => Part::File(name, format!("{}\n", words.objects.zero).into()),
        5 => Part::File(name, "ref: ".into()),
        6 => Part::File(name, format!("ref:   {}  \n", words.name(rng)).into()),
        7 => Part::File("HEAD".into(), format!("{commit} rubbish\n").into()),
        // The link is not at a name of `words`, because git lists a packed ref that has the name of a dangling link
        // but does not find it by name.
        8 => Part::Link(format!("refs/heads/broken-{}", rng.below(3)).into(), (*rng.pick(&targets)).into()),
        9 => Part::File("refs/heads/x.lock".into(), "".into()),
        10 => Part::File("refs/heads/README".into(), "read me\n".into()),
        _ => Part::File(name, format!("ref: refs/heads/bad..{}\n", rng.below(3)).into()),
    }
}
