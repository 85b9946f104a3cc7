//! The requests of `update-ref --stdin`. The first byte chooses the form of the input and whether symbolic refs are
//! followed; the rest is the input.
#![no_main]

use refdb_cli::{
    revision::Resolve,
    update_ref::{
        records::Records,
        request::{field_count, read_verb},
    },
};

/// Knows one name, so that both outcomes are tried.
struct OnlyHead;

impl Resolve for OnlyHead {
    fn resolve(&mut self, text: &bstr::BStr) -> refdb_cli::failure::Result<Option<refdb_types::ObjectId>> {
        Ok((text == "HEAD").then(|| refdb_types::ObjectId::null(refdb_types::HashKind::Sha1)))
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((flags, input)) = bytes.split_first() else { return };
    let (nul, deref) = (flags & 1 != 0, flags & 2 != 0);
    let mut records = Records::new(input);
    loop {
        let record = if nul { records.fields(field_count) } else { records.line() };
        let Ok(Some(record)) = record else { return };
        let request = read_verb(&record)
            .and_then(|(verb, arguments)| arguments.request(verb, deref, refdb_types::HashKind::Sha1, &mut OnlyHead));
        match request {
            // A name that was accepted is one that a ref may have.
            Ok(request) => assert!(request.name().is_none_or(|name| refdb_types::RefName::new(name.to_vec()).is_ok())),
            Err(_) => return,
        }
    }
});
