use super::*;
use crate::update_ref::records::Records;
use bstr::BStr;

/// A resolver that knows only HEAD.
struct OnlyHead;

impl Resolve for OnlyHead {
    fn resolve(&mut self, text: &BStr) -> Result<Option<ObjectId>> {
        Ok((text == "HEAD").then(head))
    }
}

fn head() -> ObjectId {
    ObjectId::from_bytes(HashKind::Sha1, &[0xab; 20]).unwrap()
}

fn null() -> ObjectId {
    ObjectId::null(HashKind::Sha1)
}

fn name(text: &str) -> RefName {
    RefName::new(text).unwrap()
}

/// Returns the requests of an input, or the message of the failure that ended it.
fn parse(input: &[u8], nul: bool, deref: bool) -> std::result::Result<Vec<Request>, String> {
    let mut records = Records::new(input);
    let mut requests = Vec::new();
    loop {
        let record = if nul { records.fields(field_count) } else { records.line() }.unwrap();
        let Some(record) = record else { return Ok(requests) };
        let request = read_verb(&record)
            .and_then(|(verb, arguments)| arguments.request(verb, deref, HashKind::Sha1, &mut OnlyHead));
        match request {
            Ok(request) => requests.push(request),
            Err(Failure::Fatal(message)) => return Err(message.to_string()),
            Err(other) => panic!("{other:?}"),
        }
    }
}

#[test]
fn each_request_is_understood_as_a_line() {
    let zero = "0".repeat(40);
    let input = format!(
        "update refs/a HEAD\nupdate refs/a HEAD {zero}\nupdate refs/a HEAD \nupdate refs/a \"\" HEAD\n\
         create \"refs/\\141\" \"HEAD\"\ndelete refs/a\ndelete refs/a HEAD\nverify refs/a\nverify refs/a \n\
         verify refs/a HEAD\nsymref-update refs/a refs/b\nsymref-update refs/a refs/b ref refs/c\n\
         symref-update refs/a refs/b oid HEAD\nsymref-create refs/a refs/b\nsymref-delete refs/a\n\
         symref-delete refs/a refs/b\nsymref-verify refs/a refs/b\nsymref-verify refs/a \noption no-deref\nstart\n\
         prepare\nabort\ncommit\n"
    );
    let a = || name("refs/a");
    let b = || name("refs/b");
    let expected = vec![
        Request::Update { name: a(), new: head(), old: None },
        Request::Update { name: a(), new: head(), old: Some(null()) },
        Request::Update { name: a(), new: head(), old: Some(null()) },
        Request::Update { name: a(), new: null(), old: Some(head()) },
        Request::Create { name: a(), new: head() },
        Request::Delete { name: a(), old: None },
        Request::Delete { name: a(), old: Some(head()) },
        Request::Verify { name: a(), old: null() },
        Request::Verify { name: a(), old: null() },
        Request::Verify { name: a(), old: head() },
        Request::SymrefUpdate { name: a(), target: b(), old: None },
        Request::SymrefUpdate { name: a(), target: b(), old: Some(OldValue::Target(name("refs/c"))) },
        Request::SymrefUpdate { name: a(), target: b(), old: Some(OldValue::Id(head())) },
        Request::SymrefCreate { name: a(), target: b() },
        Request::SymrefDelete { name: a(), old: None },
        Request::SymrefDelete { name: a(), old: Some(b()) },
        Request::SymrefVerify { name: a(), old: Some(b()) },
        Request::SymrefVerify { name: a(), old: None },
        Request::NoDeref,
        Request::Start,
        Request::Prepare,
        Request::Abort,
        Request::Commit,
    ];
    assert_eq!(parse(input.as_bytes(), false, false), Ok(expected));
}

#[test]
fn each_request_is_understood_as_nul_terminated_fields() {
    let input = b"start\0update refs/a\0HEAD\0\0update refs/a\0\0HEAD\0create refs/a\0HEAD\0delete refs/a\0\0\
        verify refs/a\0\0symref-update refs/a\0refs/b\0\0\0symref-update refs/a\0refs/b\0oid\0HEAD\0\
        symref-verify refs/a\0\0option no-deref\0symref-delete refs/a\0refs/b\0symref-create refs/a\0refs/b";
    let a = || name("refs/a");
    let b = || name("refs/b");
    let expected = vec![
        Request::Start,
        Request::Update { name: a(), new: head(), old: None },
        Request::Update { name: a(), new: null(), old: Some(head()) },
        Request::Create { name: a(), new: head() },
        Request::Delete { name: a(), old: None },
        Request::Verify { name: a(), old: null() },
        Request::SymrefUpdate { name: a(), target: b(), old: None },
        Request::SymrefUpdate { name: a(), target: b(), old: Some(OldValue::Id(head())) },
        Request::SymrefVerify { name: a(), old: None },
        Request::NoDeref,
        Request::SymrefDelete { name: a(), old: Some(b()) },
        Request::SymrefCreate { name: a(), target: b() },
    ];
    assert_eq!(parse(input, true, false), Ok(expected));
}

/// The messages were taken from git 2.55.
#[test]
fn mistakes_in_lines_are_reported_in_gits_words() {
    for (input, expected) in [
        ("\n", "empty command in input"),
        (" \n", "whitespace before command:  \n"),
        (" create a HEAD\n", "whitespace before command:  create a HEAD\n"),
        ("start foo\n", "unknown command: start foo\n"),
        ("start \n", "unknown command: start \n"),
        ("start", "unknown command: start"),
        ("create\n", "unknown command: create\n"),
        ("create", "unknown command: create"),
        ("CREATE x y\n", "unknown command: CREATE x y\n"),
        ("create \n", "create: missing <ref>"),
        ("create  x\n", "create: missing <ref>"),
        ("create \"\" HEAD\n", "create: missing <ref>"),
        ("create a..b HEAD\n", "invalid ref format: a..b"),
        ("create refs/x\n", "create refs/x: missing <new-oid>"),
        ("create refs/x", "create refs/x: unexpected end of input when reading <new-oid>"),
        ("create refs/x HEAD", "create refs/x: extra input: "),
        ("create refs/x HEAD\0x\n", "create refs/x: extra input: "),
        ("create refs/x \n", "create refs/x: zero <new-oid>"),
        ("create refs/x  y\n", "create refs/x: zero <new-oid>"),
        ("create refs/x\tHEAD\n", "create refs/x: expected SP but got: \tHEAD\n"),
        ("create \"refs/x\"HEAD\n", "unexpected character after quoted argument: \"refs/x\"HEAD\n"),
        ("create \"refs/x HEAD\n", "badly quoted argument: \"refs/x HEAD\n"),
        ("create refs/x \"HE\\x\"\n", "badly quoted argument: \"HE\\x\"\n"),
        ("create refs/x \"\\400\"\n", "badly quoted argument: \"\\400\"\n"),
        ("create refs/x HEAD \n", "create refs/x: extra input:  \n"),
        ("create refs/x HEAD foo bar\n", "create refs/x: extra input:  foo bar\n"),
        ("update refs/x bad\n", "update refs/x: invalid <new-oid>: bad"),
        ("update refs/x HEAD bad\n", "update refs/x: invalid <old-oid>: bad"),
        ("update refs/x HEAD HEAD HEAD\n", "update refs/x: extra input:  HEAD\n"),
        ("delete refs/x", "delete refs/x: unexpected end of input when reading <old-oid>"),
        ("delete refs/x \n", "delete refs/x: zero <old-oid>"),
        ("verify refs/x bad\n", "verify refs/x: invalid <old-oid>: bad"),
        ("option\n", "unknown command: option\n"),
        ("option \n", "option unknown: \n"),
        ("option no-deref x\n", "option unknown: no-deref x\n"),
        ("symref-create refs/x\n", "symref-create refs/x: missing <new-target>"),
        ("symref-create refs/x \n", "symref-create refs/x: missing <new-target>"),
        ("symref-create refs/x a..b\n", "invalid ref format: a..b"),
        ("symref-create refs/x\ty refs/z\n", "expected SP but got: \ty refs/z\n"),
        ("symref-create \"refs/x\"\trefs/z\n", "expected SP but got: \trefs/z\n"),
        ("symref-update refs/x refs/y\tref\n", "expected SP but got: \tref\n"),
        ("symref-update refs/x refs/y ref\tz\n", "expected SP but got: \tz\n"),
        ("symref-update refs/x refs/y ref\n", "symref-update refs/x: expected old value"),
        ("symref-update refs/x refs/y foo x\n", "symref-update refs/x: invalid arg 'foo' for old value"),
        ("symref-update refs/x refs/y ref a..b\n", "symref-update refs/x: invalid ref: a..b"),
        ("symref-update refs/x refs/y oid zz\n", "symref-update refs/x: invalid oid: zz"),
        ("symref-verify refs/x\n", "symref-verify: cannot operate with deref mode"),
        ("symref-delete \n", "symref-delete: cannot operate with deref mode"),
    ] {
        assert_eq!(parse(input.as_bytes(), false, true), Err(expected.to_owned()), "{input:?}");
    }
}

/// The messages were taken from git 2.55.
#[test]
fn mistakes_in_fields_are_reported_in_gits_words() {
    for (input, expected) in [
        ("\0", "empty command in input"),
        ("\n", "whitespace before command: \n"),
        (" \0", "whitespace before command:  "),
        ("start \0", "unknown command: start "),
        ("start\0create", "unknown command: create"),
        ("create \0HEAD\0", "create: missing <ref>"),
        ("create  x\0HEAD\0", "invalid ref format:  x"),
        ("create refs/x\0", "create refs/x: unexpected end of input when reading <new-oid>"),
        ("create refs/x\0\0", "create refs/x: missing <new-oid>"),
        ("create refs/x\0\"HEAD\"\0", "create refs/x: invalid <new-oid>: \"HEAD\""),
        ("create refs/x\0HEAD\0HEAD\0", "unknown command: HEAD"),
        ("update refs/x\0HEAD\0", "update refs/x: unexpected end of input when reading <old-oid>"),
        ("option\0no-deref\0", "unknown command: option"),
        ("option foo\0", "option unknown: foo"),
        ("symref-create refs/x\0\0", "symref-create refs/x: missing <new-target>"),
        ("symref-update refs/x\0refs/y\0ref\0", "symref-update refs/x: expected old value"),
        ("symref-update refs/x\0refs/y\0foo\0x\0", "symref-update refs/x: invalid arg 'foo' for old value"),
    ] {
        assert_eq!(parse(input.as_bytes(), true, true), Err(expected.to_owned()), "{input:?}");
    }
}

/// Stands in for a fuzzer with a small generator: every input ends in requests or in a message, and never in a panic.
#[test]
fn no_mixture_of_tokens_makes_the_parser_panic() {
    let tokens: [&[u8]; 24] = [
        b"update",
        b"create",
        b"delete",
        b"verify",
        b"symref-update",
        b"symref-create",
        b"symref-delete",
        b"symref-verify",
        b"option",
        b"start",
        b"commit",
        b" ",
        b" ",
        b" ",
        b"\n",
        b"\0",
        b"\"",
        b"\\",
        b"\\7",
        b"refs/a",
        b"HEAD",
        b"ref",
        b"oid",
        b"no-deref",
    ];
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut understood = 0;
    for _ in 0..20_000 {
        let mut input = Vec::new();
        for _ in 0..random % 12 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            input.extend_from_slice(tokens[(random >> 32) as usize % tokens.len()]);
        }
        random = random.wrapping_mul(0x2545_f491_4f6c_dd1d).wrapping_add(1);
        for nul in [false, true] {
            understood += usize::from(parse(&input, nul, random & 1 == 0).is_ok_and(|requests| !requests.is_empty()));
        }
    }
    assert!(understood > 100, "the generator makes too few valid inputs: {understood}");
}
