use super::vocabulary::{Vocabulary, flags};
use crate::Rng;
use bstr::BString;

/// Generates options that `update-ref` accepts with and without `--stdin`.
fn options(rng: &mut Rng, words: &Vocabulary<'_>) -> Vec<BString> {
    let mut line = flags(rng, &["--no-deref", "--create-reflog"], 5);
    line.extend(flags(rng, &["--deref", "--no-create-reflog"], 20));
    if rng.one_in(3) {
        line.extend(["-m".into(), words.message(rng)]);
    }
    line
}

/// Generates the arguments of `update-ref REF NEW [OLD]` or `update-ref -d REF [OLD]`.
pub(super) fn single(rng: &mut Rng, words: &Vocabulary<'_>) -> Vec<BString> {
    let mut line = options(rng, words);
    match rng.below(12) {
        0..4 => line.extend([words.name(rng), words.revision(rng)]),
        4..7 => line.extend([words.name(rng), words.revision(rng), words.revision(rng)]),
        7 => line.extend(["-d".into(), words.name(rng)]),
        8 => line.extend(["-d".into(), words.name(rng), words.revision(rng)]),
        // The old value is sometimes the right one.
        9..11 => {
            let name = words.name(rng);
            line.extend([name.clone(), words.id(rng), name]);
        }
        _ => line.extend((0..rng.below(5)).map(|_| words.name(rng))),
    }
    line
}

/// Generates the arguments and the input of `update-ref --stdin`.
pub(super) fn batch(rng: &mut Rng, words: &Vocabulary<'_>) -> (Vec<BString>, Vec<BString>) {
    let mut line = options(rng, words);
    line.push("--stdin".into());
    let nul = rng.one_in(3);
    if nul {
        line.push("-z".into());
    }
    if rng.one_in(3) {
        line.push(if rng.one_in(2) { "--batch-updates".into() } else { "-0".into() });
    }
    let mut input = Vec::new();
    let session = rng.below(5);
    if session == 0 {
        input.push(record(rng, nul, vec!["start".into()]));
    }
    for _ in 0..1 + rng.below(4) {
        if rng.one_in(6) {
            input.push(record(rng, nul, vec!["option no-deref".into()]));
        }
        let request = request(rng, words, nul);
        input.push(record(rng, nul, request));
    }
    if session < 2 {
        const ENDS: &[&[&str]] =
            &[&["prepare", "commit"], &["commit"], &["prepare"], &["abort"], &["prepare", "abort"], &["start"]];
        let last = rng.pick(ENDS);
        for word in *last {
            input.push(record(rng, nul, vec![(*word).into()]));
        }
        if rng.one_in(4) {
            input.push(record(rng, nul, vec!["start".into()]));
            let request = request(rng, words, nul);
            input.push(record(rng, nul, request));
            input.push(record(rng, nul, vec!["commit".into()]));
        }
    }
    if rng.one_in(40) {
        // The last terminator is missing.
        if let Some(last) = input.last_mut() {
            last.pop();
        }
    }
    (line, input)
}

/// Generates the fields of a request, with the verb and the first field joined.
fn request(rng: &mut Rng, words: &Vocabulary<'_>, nul: bool) -> Vec<BString> {
    let name = words.name(rng);
    let value = |rng: &mut Rng| if rng.one_in(4) { words.revision(rng) } else { words.id(rng) };
    let verb = *rng.pick(&[
        "update",
        "update",
        "update",
        "create",
        "create",
        "delete",
        "delete",
        "verify",
        "symref-update",
        "symref-create",
        "symref-delete",
        "symref-verify",
        "nonsense",
    ]);
    let first = [verb.as_bytes(), b" ", &field(rng, name.clone(), nul)[..]].concat().into();
    let mut rest: Vec<BString> = Vec::new();
    match verb {
        "update" => rest.extend([value(rng), if rng.one_in(2) { "".into() } else { value(rng) }]),
        "create" => rest.push(value(rng)),
        "delete" | "verify" => rest.push(match rng.below(4) {
            0 => value(rng),
            1 => name.clone(),
            _ => "".into(),
        }),
        "symref-update" => {
            rest.push(words.name(rng));
            match rng.below(4) {
                0 => rest.extend(["ref".into(), words.name(rng)]),
                1 => rest.extend(["oid".into(), value(rng)]),
                2 if rng.one_in(4) => rest.extend(["bogus".into(), value(rng)]),
                _ if nul => rest.extend(["".into(), "".into()]),
                _ => {}
            }
        }
        "symref-create" => rest.push(words.name(rng)),
        "symref-delete" | "symref-verify" => rest.push(if rng.one_in(2) { "".into() } else { words.name(rng) }),
        _ => {}
    }
    if !nul {
        while rest.last().is_some_and(|last| last.is_empty()) && !rng.one_in(8) {
            rest.pop();
        }
    }
    let rest = rest.into_iter().map(|text| field(rng, text, nul)).collect::<Vec<_>>();
    let extra = (rng.one_in(50)).then(|| BString::from("extra"));
    [first].into_iter().chain(rest).chain(extra).collect()
}

/// Encodes a field. In lines, it is usually quoted where it has to be, and sometimes where it does not have to be.
fn field(rng: &mut Rng, text: BString, nul: bool) -> BString {
    let must = text.iter().any(|byte| b" \n\"\t".contains(byte));
    if nul || !(must || rng.one_in(15)) || rng.one_in(30) {
        return text;
    }
    let mut quoted = BString::from("\"");
    for byte in text.iter() {
        match byte {
            b'"' | b'\\' => quoted.extend([b'\\', *byte]),
            b'\n' => quoted.extend(b"\\n"),
            b'\t' => quoted.extend(b"\\t"),
            0x80.. => quoted.extend(format!("\\{byte:03o}").bytes()),
            _ => quoted.push(*byte),
        }
    }
    quoted.push(b'"');
    quoted
}

fn record(rng: &mut Rng, nul: bool, fields: Vec<BString>) -> BString {
    let separator: &[u8] = match nul {
        true => b"\0",
        false if rng.one_in(60) => b"  ",
        false => b" ",
    };
    let mut record = bstr::join(separator, fields);
    record.push(if nul { 0 } else { b'\n' });
    record.into()
}
