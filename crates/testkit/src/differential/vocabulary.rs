use super::{Areas, objects::Objects, surroundings};
use crate::{Rng, names};
use bstr::{BString, ByteSlice};

/// The names and values of one plan: few enough to recur, and unusual enough to reveal faults.
pub(super) struct Vocabulary<'a> {
    pub(super) objects: &'a Objects,
    pub(super) areas: Areas,
    pub(super) names: Vec<BString>,
    pub(super) trees: Vec<BString>,
}

const USUAL: &[&str] = &[
    "refs/heads/main",
    "refs/heads/a",
    "refs/heads/b",
    "refs/heads/a/b",
    "refs/heads/a-b",
    "refs/heads/dir/x",
    "refs/heads/dir-y",
    "refs/heads/Main",
    "refs/heads/v1",
    "refs/tags/v1",
    "refs/tags/v1.9",
    "refs/tags/v1.10",
    "refs/tags/v1.10-rc1",
    "refs/tags/main",
    "refs/remotes/origin/main",
    "refs/remotes/origin/HEAD",
    "refs/remotes/origin/a",
    "refs/remotes/main/HEAD",
    "refs/notes/x",
    "refs/stash",
    "refs/x/y",
    "refs/bisect/bad",
    "refs/worktree/w",
    "refs/rewritten/r",
];

const ROOT: &[&str] = &[
    "HEAD",
    "HEAD",
    "HEAD",
    "ORIG_HEAD",
    "MERGE_HEAD",
    "FETCH_HEAD",
    "AUTO_MERGE",
    "X_HEAD",
    "BISECT_EXPECTED_REV",
    "foo",
];

impl<'a> Vocabulary<'a> {
    pub(super) fn random(rng: &mut Rng, objects: &'a Objects, areas: Areas) -> Self {
        let mut names: Vec<BString> = (0..9).map(|_| (*rng.pick(USUAL)).into()).collect();
        names.push("refs/heads/main".into());
        if rng.one_in(2) {
            names.extend((0..3).map(|_| names::quarrelsome(rng)));
        }
        if rng.one_in(4) {
            let nasty = names::nasty();
            names.extend((0..2).map(|_| rng.pick(&nasty).clone()));
        }
        if areas.surroundings && rng.one_in(3) {
            names.extend((0..2).map(|_| surroundings::long_name(rng)));
        }
        Vocabulary { objects, areas, names, trees: Vec::new() }
    }

    /// Returns the name of a ref, which may or may not exist and is usually well formed.
    pub(super) fn name(&self, rng: &mut Rng) -> BString {
        let known = rng.pick(&self.names).clone();
        match rng.below(40) {
            0..26 => known,
            26..31 => (*rng.pick(ROOT)).into(),
            31..33 => (*rng.pick(USUAL)).into(),
            33 => [&known[..], b"/", rng.pick(&["x", "b", "y/z", "HEAD"]).as_bytes()].concat().into(),
            34 => known.rsplitn_str(2, "/").last().unwrap_or_default().into(),
            35 => rng.pick(&names::invalid()).iter().copied().filter(|byte| *byte != 0).collect::<Vec<u8>>().into(),
            36 => known.splitn_str(3, "/").last().unwrap_or_default().into(),
            37 if self.areas.worktree_names => {
                let lead = match self.trees.is_empty() || rng.one_in(2) {
                    true => "main-worktree".into(),
                    false => format!("worktrees/{}", rng.pick(&self.trees)),
                };
                let tail = if rng.one_in(3) { (*rng.pick(ROOT)).into() } else { known };
                format!("{lead}/{tail}").into()
            }
            _ => names::quarrelsome(rng),
        }
    }

    /// Returns the id of an object, which may not exist.
    pub(super) fn id(&self, rng: &mut Rng) -> BString {
        match rng.below(20) {
            0..6 if self.areas.surroundings => rng.pick(&self.objects.odd).clone(),
            0..15 => rng.pick(&self.objects.commits).clone(),
            15..18 => rng.pick(&self.objects.others).clone(),
            18 if self.areas.broken && rng.one_in(3) => self.objects.lie.clone(),
            18 => self.objects.zero.clone(),
            _ => self.objects.missing.clone(),
        }
    }

    /// Returns a revision in one of many forms, which may name no object.
    pub(super) fn revision(&self, rng: &mut Rng) -> BString {
        let name = self.name(rng);
        let short = name.splitn_str(3, "/").last().unwrap_or_default();
        match rng.below(40) {
            30.. => rng.pick(&self.objects.commits).clone(),
            0..14 => self.id(rng),
            14..18 => name,
            18..20 => short.into(),
            20 => "HEAD".into(),
            21 => [&name[..], rng.pick(&["~1", "^", "^0", "~2^2", "^{tree}", "^{}", "^{commit}", "^3"]).as_bytes()]
                .concat()
                .into(),
            22 => [short, rng.pick(&["~1", "^", "@{0}", "@{1}", "@{9}", "^{commit}"]).as_bytes()].concat().into(),
            23 => {
                let id = self.id(rng);
                id[..(4 + rng.below(id.len() - 4))].into()
            }
            24 => (*rng.pick(&["@", "@{0}", "@{1}", "@{-1}", "HEAD^{tree}", "HEAD:file", "@~1"])).into(),
            25 => "".into(),
            26 => [&self.id(rng)[..], b"0"].concat().into(),
            27 => self.id(rng).to_ascii_uppercase().into(),
            _ => (*rng.pick(&["nothing", "main", "a", "v1", "origin", "refs/heads/main", "-x", "^main", "a..b", "~"]))
                .into(),
        }
    }

    /// Generates a reflog message.
    pub(super) fn message(&self, rng: &mut Rng) -> BString {
        if self.areas.long_messages && rng.one_in(6) {
            return "long ".repeat(200 + rng.below(2000)).into();
        }
        let messages = [
            "why",
            "two\nlines",
            "  spaced  out\t\n",
            "",
            " ",
            "\u{fc}nusual",
            "checkout: moving from main to a",
            "x\0".trim_end_matches('\0'),
        ];
        (*rng.pick(&messages)).into()
    }

    /// Generates a pattern for names.
    pub(super) fn pattern(&self, rng: &mut Rng) -> BString {
        let name = self.name(rng);
        match rng.below(12) {
            0..3 => name,
            3 => name.rsplitn_str(2, "/").last().unwrap_or_default().into(),
            4 => [name.rsplitn_str(2, "/").last().unwrap_or_default(), b"/"].concat().into(),
            5 => [name.rsplitn_str(2, "/").last().unwrap_or_default(), b"/*"].concat().into(),
            6 => name.to_ascii_uppercase().into(),
            7 => name.splitn_str(3, "/").last().unwrap_or_default().into(),
            _ => (*rng.pick(&[
                "refs/heads",
                "refs/heads/",
                "refs/tags/*",
                "refs/**",
                "**/main",
                "refs/heads/[ab]*",
                "refs/*/main",
                "*",
                "",
                "/",
                "refs/heads/?",
                "refs",
                "main",
                "refs/tags/v1.[0-9]*",
                "refs/heads/**/x",
                "HEAD",
                "refs/heads/a\\b",
                "[",
                "refs//heads",
            ]))
            .into(),
        }
    }
}

/// Returns some of these options, each of which is a single word. Each is chosen once in `chance` times.
pub(super) fn flags(rng: &mut Rng, options: &[&str], chance: usize) -> Vec<BString> {
    options.iter().filter(|_| rng.one_in(chance)).map(|option| BString::from(*option)).collect()
}
