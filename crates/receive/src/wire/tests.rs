use super::{
    pkt::{Band, Decoded, Packet, decode},
    *,
};
use bstr::{BStr, BString, ByteSlice};
use proptest::prelude::*;
use refdb_types::{HashKind, ObjectId};

fn offer(hash: HashKind) -> Offer {
    let (agent, session_id) = ("test/1".into(), Some("s1".into()));
    Offer { hash, atomic: true, push_options: true, ofs_delta: true, agent, session_id }
}

fn id(hash: HashKind, byte: u8) -> ObjectId {
    ObjectId::from_bytes(hash, &vec![byte; hash.len_bytes()]).unwrap()
}

/// Decodes all packets, and requires that no bytes follow them.
fn packets(mut bytes: &[u8]) -> Vec<Packet<'_>> {
    let mut all = Vec::new();
    while let Ok(Decoded::Packet(packet, length)) = decode(bytes) {
        all.push(packet);
        bytes = &bytes[length..];
    }
    assert!(bytes.is_empty(), "left: {:?}", bytes.as_bstr());
    all
}

fn read(offer: &Offer, limits: Limits, bytes: &[u8], piece: usize) -> (Result<Request, ProtocolError>, usize) {
    let mut reader = RequestReader::new(offer, limits);
    let mut taken = 0;
    for piece in bytes.chunks(piece) {
        match reader.take(piece) {
            Ok(count) => taken += count,
            Err(error) => return (Err(error), taken),
        }
        if reader.wants() == 0 {
            break;
        }
    }
    (reader.finish(), taken)
}

fn request(lines: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in lines {
        if line.is_empty() { pkt::flush(&mut bytes) } else { pkt::line(&[line], &mut bytes) }
    }
    bytes
}

#[test]
fn packets_are_told_from_what_is_none() {
    assert_eq!(decode(b"000"), Ok(Decoded::Missing(1)));
    assert_eq!(decode(b"0009abc"), Ok(Decoded::Missing(2)));
    assert_eq!(decode(b"0009abcd\nX"), Ok(Decoded::Packet(Packet::Line(b"abcd"), 9)));
    assert_eq!(decode(b"0004"), Ok(Decoded::Packet(Packet::Line(b""), 4)));
    assert_eq!(decode(b"0000X"), Ok(Decoded::Packet(Packet::Flush, 4)));
    assert_eq!(decode(b"0001"), Ok(Decoded::Packet(Packet::Special(1), 4)));
    assert_eq!(decode(b"0003"), Err(Fault::Length(3)));
    assert_eq!(decode(b"fff3"), Ok(Decoded::Missing(pkt::READ_BYTES_MAX)));
    assert_eq!(decode(b"fff4"), Err(Fault::Length(65_520)));
    assert_eq!(decode(b"ffff"), Err(Fault::Length(65_531)));
    assert_eq!(decode(b"fff0"), Ok(Decoded::Missing(pkt::DATA_BYTES_MAX)));
    assert_eq!(decode(b"00g0"), Err(Fault::LengthDigits(*b"00g0")));
    assert_eq!(decode(b"+001"), Err(Fault::LengthDigits(*b"+001")));
}

#[test]
fn long_data_goes_through_a_band_in_packets() {
    let data = vec![b'x'; 3 * pkt::DATA_BYTES_MAX];
    let mut out = Vec::new();
    pkt::band(Band::Progress, &data, &mut out);
    let mut joined = Vec::new();
    for packet in packets(&out) {
        let Packet::Line([2, rest @ ..]) = packet else { panic!("{packet:?}") };
        joined.extend_from_slice(rest);
    }
    assert_eq!(joined, data);
}

#[test]
fn the_first_ref_carries_the_capabilities() {
    let offer = offer(HashKind::Sha1);
    let mut out = Vec::new();
    let mut advertisement = Advertisement::begin(&offer, true, &mut out);
    assert!(advertisement.add(&id(HashKind::Sha1, 0x11), "refs/heads/a".into(), &mut out));
    assert!(advertisement.add(&id(HashKind::Sha1, 0x22), "refs/heads/b".into(), &mut out));
    assert!(!advertisement.add(&id(HashKind::Sha1, 0x22), "x".repeat(65_500).as_str().into(), &mut out));
    advertisement.end(&mut out);
    let first = [
        "1".repeat(40).as_bytes(),
        b" refs/heads/a\0report-status report-status-v2 delete-refs side-band-64k quiet atomic ofs-delta push-options \
          session-id=s1 object-format=sha1 agent=test/1",
    ]
    .concat();
    let second = ["2".repeat(40).as_bytes(), b" refs/heads/b"].concat();
    let expected = [Packet::Line(b"version 1"), Packet::Line(&first), Packet::Line(&second), Packet::Flush];
    assert_eq!(packets(&out), expected);
}

#[test]
fn a_repository_without_refs_still_says_what_the_server_can_do() {
    let bare =
        Offer { atomic: false, push_options: false, ofs_delta: false, session_id: None, ..offer(HashKind::Sha256) };
    let mut out = Vec::new();
    Advertisement::begin(&bare, false, &mut out).end(&mut out);
    let line = [
        "0".repeat(64).as_bytes(),
        b" capabilities^{}\0report-status report-status-v2 delete-refs side-band-64k quiet object-format=sha256 agent=test/1",
    ]
    .concat();
    assert_eq!(packets(&out), [Packet::Line(&line), Packet::Flush]);
}

#[test]
fn a_request_is_read_up_to_its_last_byte_in_pieces_of_any_size() {
    let (old, new) = ("0".repeat(40), "ab".repeat(20));
    let first = format!(
        "{old} {new} refs/heads/a\0 report-status-v2 side-band-64k atomic push-options quiet object-format=sha1 agent=git/2 session-id=c"
    );
    let shallow = format!("shallow {new}");
    let mut bytes = request(&[
        shallow.as_bytes(),
        first.as_bytes(),
        format!("{new} {old} refs/tags/b\n").as_bytes(),
        b"",
        b"one option",
    ]);
    bytes.extend_from_slice(b"00040000PACK");
    let (whole, taken) = read(&offer(HashKind::Sha1), Limits::default(), &bytes, usize::MAX);
    let whole = whole.unwrap();
    assert_eq!(taken, bytes.len() - 4);
    assert_eq!(whole.options, ["one option", ""]);
    assert_eq!(whole.shallow, [id(HashKind::Sha1, 0xab)]);
    let names: Vec<_> = whole.commands.iter().map(|command| (command.name.to_string(), command.deletes())).collect();
    assert_eq!(names, [("refs/heads/a".into(), false), ("refs/tags/b".into(), true)]);
    assert!(!whole.commands.only_delete() && whole.commands.get(0).creates());
    let expected = Capabilities {
        report: ReportFormat::V2,
        side_band: true,
        quiet: true,
        atomic: true,
        push_options: true,
        agent: "git/2".into(),
        session_id: "c".into(),
    };
    assert_eq!(whole.capabilities, expected);
    for piece in 1..bytes.len() {
        let (read, count) = read(&offer(HashKind::Sha1), Limits::default(), &bytes, piece);
        assert_eq!((read.unwrap(), count), (whole.clone(), taken), "in pieces of {piece}");
    }
    for end in 0..taken {
        let (read, _) = read(&offer(HashKind::Sha1), Limits::default(), &bytes[..end], usize::MAX);
        let error = read.unwrap_err();
        assert_eq!(error.fault, Fault::End);
        assert!(error.offset <= end as u64);
    }
}

#[test]
fn a_reader_that_reads_what_is_wanted_never_waits_beyond_the_request() {
    let (old, new) = ("0".repeat(40), "ab".repeat(20));
    let bytes = request(&[format!("{old} {new} refs/heads/a\0push-options").as_bytes(), b"", b"option", b""]);
    let mut reader = RequestReader::new(&offer(HashKind::Sha1), Limits::default());
    let (mut at, mut reads) = (0, 0);
    while reader.wants() > 0 {
        let piece = &bytes[at..][..reader.wants()];
        assert_eq!(reader.take(piece).unwrap(), piece.len());
        (at, reads) = (at + piece.len(), reads + 1);
    }
    assert_eq!((at, reads), (bytes.len(), 4));
}

#[test]
fn what_was_not_offered_is_not_taken() {
    let bare = Offer { atomic: false, push_options: false, ..offer(HashKind::Sha1) };
    let zero = "0".repeat(40);
    let bytes = request(&[format!("{zero} {zero} x\0atomic push-options report-status").as_bytes(), b""]);
    let chosen = read(&bare, Limits::default(), &bytes, usize::MAX).0.unwrap().capabilities;
    assert_eq!(chosen, Capabilities { report: ReportFormat::V1, ..Capabilities::default() });
}

#[test]
fn the_commands_of_a_certificate_are_read_as_git_joins_its_packets() {
    let hash = HashKind::Sha1;
    let line = |name: &str| format!("{} {} refs/heads/{name}", id(hash, 0), id(hash, 1));
    let cases: [(&[&str], &[&str]); 6] = [
        (&["certificate version 0.1\nnonce x\n", "\n", "A\n", "B\n", "-----BEGIN SSH SIGNATURE-----\n"], &["a", "b"]),
        (&["x\n\nA", "-more\nB\n"], &["a-more", "b"]),
        (&["x\n\nA\0 hidden\n", "-more\n"], &["a-more"]),
        (&["x\n\nA\nA"], &["a", "a"]),
        (&["x\nA\n"], &[]),
        (&["x\n\nA\n", "push-cert-end", "\n"], &["a"]),
    ];
    for (parts, expected) in cases {
        let parts: Vec<_> = parts.iter().map(|part| part.replace('A', &line("a")).replace('B', &line("b"))).collect();
        for ends in [&["push-cert-end\n", ""][..], &["push-cert-end\n\0", ""], &[""]] {
            let lines = ["shallow 0101010101010101010101010101010101010101", "push-cert\0 report-status"];
            let lines: Vec<&[u8]> = lines
                .into_iter()
                .chain(parts.iter().map(|part| &part[..]))
                .chain(ends.iter().copied())
                .map(str::as_bytes)
                .collect();
            let bytes = request(&lines);
            let mut reader = RequestReader::new(&offer(hash), Limits::default()).with_certificates();
            assert_eq!(reader.take(&bytes), Ok(bytes.len()));
            let request = reader.finish().unwrap();
            let names: Vec<_> = request.commands.iter().map(|command| command.name.to_string()).collect();
            let expected: Vec<_> = expected.iter().map(|name| format!("refs/heads/{name}")).collect();
            assert_eq!(names, expected, "{parts:?}");
            assert_eq!(request.capabilities.report, ReportFormat::V1);
        }
    }
    let limits = Limits { commands_bytes: 1_000, ..Limits::default() };
    let mut lines = vec![&b"push-cert\0object-format=sha1"[..]];
    lines.resize(200, b"0123456789");
    let mut reader = RequestReader::new(&offer(hash), limits).with_certificates();
    let read = reader.take(&request(&lines)).map_err(|error| error.fault);
    assert_eq!(read, Err(Fault::TooMuch { what: "certificates", limit: 1_000 }));
}

#[test]
fn errors_name_the_packet() {
    let zero = "0".repeat(40);
    let good = format!("{zero} {zero} refs/heads/a");
    let of = |line: &[u8]| {
        let bytes = request(&[good.as_bytes(), line, b""]);
        let error = read(&offer(HashKind::Sha1), Limits::default(), &bytes, usize::MAX).0.unwrap_err();
        assert_eq!(error.offset, good.len() as u64 + 4);
        error.fault.to_string()
    };
    assert_eq!(of(b"ERR no"), "remote error: no");
    assert_eq!(of(b"shallow 12"), "protocol error: expected shallow sha, got '12'");
    assert_eq!(of(b"x"), "protocol error: expected old/new/ref, got 'x'");
    assert_eq!(
        of(format!("{zero} {zero}x").as_bytes()),
        format!("protocol error: expected old/new/ref, got '{zero} {zero}x'")
    );
    assert_eq!(of(format!("{good}\0object-format=sha256").as_bytes()), "error: unsupported object format 'sha256'");
    assert!(of(b"push-cert\0").contains("push certificate"));
    // The server uses SHA-256, and the client names no hash function.
    let zero = "0".repeat(64);
    let bytes = request(&[format!("{zero} {zero} x\0quiet").as_bytes(), b""]);
    let error = read(&offer(HashKind::Sha256), Limits::default(), &bytes, usize::MAX).0.unwrap_err();
    assert_eq!(error.to_string(), "error: unsupported object format 'sha1' (in the packet at byte 0 of the request)");
}

#[test]
fn what_a_client_can_make_grow_is_bounded() {
    let limits = Limits { commands_bytes: 10_000, options_bytes: 1_000, shallow_bytes: 1_000 };
    let zero = "0".repeat(40);
    let first = format!("{zero} {zero} refs/heads/a\0push-options");
    let command = format!("{zero} {zero} refs/heads/a");
    let shallow = format!("shallow {zero}");
    let mut commands = vec![first.as_bytes()];
    commands.resize(10 * limits.commands_bytes / Commands::COMMAND_BYTES, command.as_bytes());
    let mut options = vec![first.as_bytes(), b""];
    options.resize(10 * limits.options_bytes, b"o");
    let edge = vec![shallow.as_bytes(); 10 * limits.shallow_bytes / size_of::<ObjectId>()];
    for (what, lines) in [("commands", commands), ("push options", options), ("ids of a shallow clone's edge", edge)] {
        let (read, taken) = read(&offer(HashKind::Sha1), limits, &request(&lines), 100);
        let Err(ProtocolError { fault: Fault::TooMuch { what: named, limit }, .. }) = read else { panic!("{read:?}") };
        assert_eq!(named, what);
        // The reader fails before everything has arrived.
        assert!(taken < 12 * limit, "{what}: {taken} bytes were taken");
    }
}

#[test]
fn a_pack_header_is_read_or_refused_in_gits_words() {
    let header = PackHeader::parse(b"PACK\0\0\0\x02\0\0\x01\x02");
    assert_eq!(header, Ok(PackHeader { version: 2, objects: 258 }));
    assert_eq!(PackHeader::parse(b"PACK"), Err(PackHeaderError::End));
    assert_eq!(PackHeader::parse(b"PUCK\0\0\0\x02\0\0\0\0"), Err(PackHeaderError::Signature));
    assert_eq!(PackHeader::parse(b"PACK\0\0\0\x04\0\0\0\0"), Err(PackHeaderError::Version));
}

#[test]
fn a_report_says_what_became_of_each_command() {
    let long = "n".repeat(pkt::DATA_BYTES_MAX - 82);
    let results: [(&BStr, Option<&BStr>); 3] = [
        ("refs/heads/a".into(), None),
        ("refs/heads/b".into(), Some("no".into())),
        (long.as_str().into(), Some("why ".repeat(99).leak().as_bytes().into())),
    ];
    let mut out = Vec::new();
    report::report(None, results, &mut out);
    let [Packet::Line(unpack), Packet::Line(a), Packet::Line(b), Packet::Line(c), Packet::Flush] = packets(&out)[..]
    else {
        panic!("{}", out.as_bstr())
    };
    assert_eq!([unpack, a, b], [&b"unpack ok"[..], b"ok refs/heads/a", b"ng refs/heads/b no"]);
    assert!(c.starts_with(format!("ng {long} why why").as_bytes()));
    let mut out = Vec::new();
    report::report(Some("index-pack abnormal exit".into()), [], &mut out);
    assert_eq!(packets(&out), [Packet::Line(b"unpack index-pack abnormal exit"), Packet::Flush]);
}

proptest! {
    #[test]
    fn any_lines_come_back_from_packets(lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..20)) {
        let mut out = Vec::new();
        for line in &lines {
            pkt::line(&[line, b"\n"], &mut out);
        }
        let expected: Vec<_> = lines.iter().map(|line| Packet::Line(line)).collect();
        prop_assert_eq!(packets(&out), expected);
    }

    #[test]
    fn no_bytes_and_no_pieces_make_a_difference(bytes in prop::collection::vec(any::<u8>(), 0..400), piece in 1usize..50) {
        let offer = offer(HashKind::Sha1);
        let whole = read(&offer, Limits::default(), &bytes, usize::MAX).0;
        prop_assert_eq!(read(&offer, Limits::default(), &bytes, piece).0, whole);
    }

    #[test]
    fn commands_come_back_in_order(names in prop::collection::vec("[a-z/]{0,40}", 1..50), options in prop::collection::vec("[a-z=]{0,9}", 0..5)) {
        for hash in [HashKind::Sha1, HashKind::Sha256] {
            let mut bytes = Vec::new();
            for (at, name) in names.iter().enumerate() {
                let ids = format!("{} {} ", id(hash, at as u8), id(hash, 1));
                let words = format!("\0push-options object-format={}", hash.name());
                pkt::line(&[ids.as_bytes(), name.as_bytes(), if at == 0 { words.as_bytes() } else { b"" }], &mut bytes);
            }
            pkt::flush(&mut bytes);
            for option in &options {
                pkt::line(&[option.as_bytes()], &mut bytes);
            }
            pkt::flush(&mut bytes);
            let request = read(&offer(hash), Limits::default(), &bytes, 7).0.unwrap();
            let read: Vec<BString> = request.commands.iter().map(|command| command.name.into()).collect();
            prop_assert_eq!(read, names.iter().map(|name| BString::from(name.as_str())).collect::<Vec<_>>());
            prop_assert!(request.commands.iter().enumerate().all(|(at, command)| command.old == id(hash, at as u8)));
            prop_assert_eq!(&request.options, &options.iter().map(|option| BString::from(option.as_str())).collect::<Vec<_>>());
        }
    }
}
