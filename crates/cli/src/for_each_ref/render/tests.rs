use super::*;
use crate::{
    clock::Clock,
    failure::Failure,
    for_each_ref::{
        atom::Direction, format::ParseError, questions::Question, remote::Counterpart, trailers::TrailerRules,
    },
};
use refdb::{Environment, Zone};
use refdb_types::HashKind;

const COMMIT: &[u8] = b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor A <a@x> 1 +0000\n\
    committer C <c@x> 2 +0000\n\nsubject\n\nbody\n";

/// A world with one commit (0xab..) and a tag of it (0xcd..).
struct Small<'a> {
    clock: Clock<'a>,
    rules: TrailerRules,
}

fn id(byte: u8) -> ObjectId {
    ObjectId::from_bytes(HashKind::Sha1, &[byte; 20]).unwrap()
}

impl World for Small<'_> {
    fn kind(&mut self, id: &ObjectId) -> Result<Option<ObjectKind>> {
        Ok(self.header(id)?.map(|(kind, _)| kind))
    }
    fn header(&mut self, id: &ObjectId) -> Result<Option<(ObjectKind, u64)>> {
        let mut data = Vec::new();
        Ok(self.read(id, &mut data)?.map(|kind| (kind, data.len() as u64)))
    }
    fn read(&mut self, wanted: &ObjectId, data: &mut Vec<u8>) -> Result<Option<ObjectKind>> {
        data.clear();
        if *wanted == id(0xab) {
            data.extend_from_slice(COMMIT);
            Ok(Some(ObjectKind::Commit))
        } else if *wanted == id(0xcd) {
            data.extend_from_slice(format!("object {}\ntype commit\ntag t\n\ntext\n", id(0xab)).as_bytes());
            Ok(Some(ObjectKind::Tag))
        } else {
            Ok(None)
        }
    }
    fn abbreviate(&mut self, _: &ObjectId, least: Option<usize>) -> Result<usize> {
        Ok(least.unwrap_or(7))
    }
    fn shorten<'n>(&mut self, name: &'n BStr) -> Result<&'n BStr> {
        Ok(name.strip_prefix(b"refs/heads/").unwrap_or(name).as_bstr())
    }
    fn head(&self) -> Option<&BStr> {
        Some("refs/heads/a/b".into())
    }
    fn counterpart(&mut self, _: Direction, name: &BStr) -> Counterpart {
        let tracking = Some(name.replacen("heads", "remotes/o", 1).into());
        Counterpart { tracking, remote: "o".into(), remote_ref: name.into() }
    }
    fn ahead_behind(&mut self, _: &ObjectId, _: &BStr) -> Result<Option<(usize, usize)>> {
        Ok(Some((1, 2)))
    }
    fn ahead_behind_base(&mut self, _: &ObjectId, _: &BStr) -> Result<Option<(usize, usize)>> {
        Ok(Some((3, 4)))
    }
    fn names_commits(&self) -> bool {
        false
    }
    fn depends_on_all(&self) -> bool {
        false
    }
    fn hear(&mut self, _: &BStr, _: &ObjectId) -> Result<()> {
        Ok(())
    }
    fn is_base(&self, name: &BStr, base: &BStr) -> bool {
        name.ends_with(base)
    }
    fn ask(&mut self, question: &Question) -> Result<BString> {
        Ok(match question {
            Question::Stored(_) => format!("12 {}", id(0xab)).into(),
            Question::Contact(_) => "Q <q@y>".into(),
            Question::Name(_, options) => bstr::join(" ", options).into(),
            Question::Signature(_) => "G\0S\0K\0F\0P\0T\0B".into(),
        })
    }
    fn trailer_rules(&mut self) -> &TrailerRules {
        &self.rules
    }
    fn worktree(&mut self, _: &BStr) -> Result<Option<&BStr>> {
        Ok(None)
    }
    fn is_packed(&self, _: &BStr) -> bool {
        true
    }
    fn clock(&self) -> &Clock<'_> {
        &self.clock
    }
}

fn parse(format: &str) -> std::result::Result<Format, ParseError> {
    Format::parse(format.into(), Quote::None, &mut |_| Ok(()))
}

fn show(format: &str, quote: Quote, oid: u8) -> String {
    let format = Format::parse(format.into(), quote, &mut |_| Ok(())).unwrap();
    let id = id(oid);
    let row = Row { name: "refs/heads/a/b".into(), id: &id, symref: None, peeled: &Peeled::Unknown };
    let mut out = Vec::new();
    let environment = Environment::empty("/nonexistent");
    let clock = Clock { zone: Zone::of(&environment), now: 0 };
    let mut small = Small { clock, rules: TrailerRules::default() };
    match Renderer::new(&mut small, quote, true).row(&format, &row, &mut out) {
        Ok(()) => String::from_utf8(out).unwrap(),
        Err(Failure::Fatal(message)) => message.to_string(),
        Err(other) => panic!("{other:?}"),
    }
}

/// The forms of the values were taken from git 2.55; answers of other programs are those that [`Small`] makes up.
#[test]
fn fields_of_the_name_and_of_the_object_are_shown_as_git_shows_them() {
    let ab = "ab".repeat(20);
    let cd = "cd".repeat(20);
    for (format, oid, expected) in [
        ("%(refname)", 0xab, "refs/heads/a/b"),
        ("%(refname:)|%(symref)|%(HEAD)", 0xab, "refs/heads/a/b||*"),
        ("%(refname:short)", 0xab, "a/b"),
        ("%(refname:lstrip=0) %(refname:lstrip=1) %(refname:strip=4)|", 0xab, "refs/heads/a/b heads/a/b |"),
        ("%(refname:lstrip=-1) %(refname:lstrip=-4) %(refname:lstrip=-9)", 0xab, "b refs/heads/a/b refs/heads/a/b"),
        ("%(refname:rstrip=1) %(refname:rstrip=4)|%(refname:rstrip=-1)", 0xab, "refs/heads/a |refs"),
        ("%(*refname) %(*HEAD)", 0xab, "refs/heads/a/b^{} *"),
        ("%(objectname) %(objectname:short=4)", 0xab, &format!("{ab} abab")),
        ("%(objecttype) %(objectsize)", 0xab, &format!("commit {}", COMMIT.len())),
        ("%(*objectname)|%(*objecttype)|%(object)|%(tag)", 0xab, "|||"),
        ("%(*objectname)|%(*objecttype)|%(object)|%(type)|%(tag)", 0xcd, &format!("{ab}|commit|{ab}|commit|t")),
        ("%(objectname)%(tree)%(numparent)", 0xcd, &cd),
        ("%(tree:short) %(numparent)%(parent)", 0xab, "4b825dc 0"),
        ("%(authorname)%(committeremail:trim)%(taggerdate)%(subject)%(*subject)", 0xab, "Ac@xsubject"),
        ("%(*subject)|%(contents:size)|%(raw:size)", 0xcd, "subject|5|72"),
        ("%%%41%zz%4%", 0xab, "%A%zz%4%"),
        ("%(color:red)x", 0xab, "\x1b[31mx\x1b[m"),
        ("%(if)%(symref)%(then)a%(else)b%(end)", 0xab, "b"),
        ("%(if:equals=commit)%(objecttype)%(then)a%(end)", 0xab, "a"),
        ("%(if:notequals=commit)%(objecttype)%(then)a%(end)|", 0xab, "|"),
        (
            "%(align:5)x%(end)|%(align:5,right)x%(end)|%(align:position=middle,width=4)x%(end)|",
            0xab,
            "x    |    x| x  |",
        ),
        ("%(is-base:b)|%(is-base:c)", 0xab, "(b)|"),
        ("%(objectsize:disk) %(deltabase)|%(*deltabase)", 0xab, &format!("12 {ab}|")),
        ("%(authorname:mailmap) %(committeremail:mailmap,trim)|%(taggername:mailmap)", 0xab, "Q q@y|"),
        ("%(describe:tags,abbrev=3)|%(*describe)", 0xab, "--tags --abbrev=3|"),
        ("%(signature)%(signature:grade)%(signature:trustlevel)", 0xab, "BGT"),
        ("%(signature:grade)|%(*signature:grade)", 0xcd, "|G"),
        ("%(trailers)|%(contents:trailers:only)", 0xab, "|"),
        ("%(objecttype)", 0, &format!("missing object {} for refs/heads/a/b", "0".repeat(40))),
    ] {
        assert_eq!(show(format, Quote::None, oid), expected, "{format}");
    }
}

#[test]
fn of_a_group_only_the_outcome_is_quoted() {
    assert_eq!(show("r=%(refname)", Quote::Shell, 0xab), "r='refs/heads/a/b'");
    let choice = "%(if)%(refname)%(then)'%(objecttype)%(end)";
    assert_eq!(show(choice, Quote::Shell, 0xab), "''\\''commit'");
    assert_eq!(show("%(symref)", Quote::Tcl, 0xab), "\"\"");
}

/// The messages were taken from git 2.55.
#[test]
fn mistakes_in_formats_are_reported_in_gits_words() {
    for (format, expected) in [
        ("%(INVALID)", "unknown field name: INVALID"),
        ("%( refname)", "unknown field name:  refname"),
        ("%()", "malformed field name: "),
        ("%(refname:foo)", "unrecognized %(refname) argument: foo"),
        ("%(refname:lstrip=x)", "Integer value expected refname:lstrip=x"),
        ("%(objectname:foo)", "unrecognized %(objectname) argument: foo"),
        ("%(objectname:short=0)", "positive value expected '0' in %(objectname:short=0)"),
        ("%(objecttype:x)", "%(objecttype) does not take arguments"),
        ("%(objectsize:x)", "unrecognized %(objectsize) argument: x"),
        ("%(HEAD:x)", "%(HEAD) does not take arguments"),
        ("%(symref:x)", "unrecognized %(symref) argument: x"),
        ("%(if:foo=x)a%(then)b%(end)", "unrecognized %(if) argument: foo=x"),
        ("%(align)", "expected format: %(align:<width>,<position>)"),
        ("%(align:x)x%(end)", "unrecognized %(align) argument: x"),
        ("%(color)", "expected format: %(color:<color>)"),
        ("%(contents:x)", "unrecognized %(contents) argument: x"),
        ("%(contents:lines=x)", "positive value expected contents:lines=x"),
        ("%(body:x)", "%(body) does not take arguments"),
        ("%(authorname:x)", "unrecognized %(authorname) argument: x"),
        ("%(authoremail:trim,)", "unrecognized %(authoremail) argument: "),
        ("%(committeremail:trim_localpart)", "unrecognized %(committeremail) argument: _localpart"),
        ("%(raw:x)", "unrecognized %(raw) argument: x"),
    ] {
        match parse(format) {
            Err(ParseError::Failure(Failure::Fatal(message))) => assert_eq!(message, expected, "{format}"),
            other => panic!("{format}: {other:?}"),
        }
    }
    assert!(matches!(parse("a%(b"), Err(ParseError::Unclosed(rest)) if rest == "%(b"));
}

#[test]
fn a_misplaced_field_matters_when_a_ref_is_shown() {
    for (format, expected) in [
        ("%(if)", "format: %(end) atom missing"),
        ("%(if)a%(end)", "format: %(if) atom used without a %(then) atom"),
        ("%(end)", "format: %(end) atom used without corresponding atom"),
        ("%(then)", "format: %(then) atom used without a %(if) atom"),
        ("%(else)", "format: %(else) atom used without a %(if) atom"),
        ("%(if)%(else)%(then)%(end)", "format: %(else) atom used without a %(then) atom"),
        ("%(if)%(then)%(then)%(end)", "format: %(then) atom used more than once"),
        ("%(if)%(then)%(else)%(else)%(end)", "format: %(else) atom used more than once"),
        ("%(if)%(then)%(else)%(then)%(end)", "format: %(then) atom used more than once"),
    ] {
        assert_eq!(show(format, Quote::None, 0xab), expected, "{format}");
    }
}
