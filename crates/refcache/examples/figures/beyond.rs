//! More refs than there is memory for.

use crate::{
    reads::{each_of, show},
    repository::{id, make, names, settings},
};
use bstr::{BString, ByteSlice};
use refdb_refcache::{ListOptions, Trust, Views, ViewsSettings};
use std::{fs, hint::black_box, ops::ControlFlow, path::Path};

/// How many look-ups are measured, after as many that are not.
const LOOK_UPS: u32 = 400_000;

pub(crate) fn measure(dir: &Path, refs: usize) {
    let names = names(refs);
    for format in ["files", "reftable"] {
        let repo = dir.join(format!("figures-{format}-{}.git", std::process::id()));
        make(&repo, format, &names);
        for memory_mib in [256, 56] {
            println!("## {format}, {refs} refs, {memory_mib} MiB");
            measure_one(&repo, &names, memory_mib << 20);
        }
        fs::remove_dir_all(&repo).expect("a folder just made can be removed");
    }
}

fn measure_one(repo: &Path, names: &[BString], memory_bytes: usize) {
    let views = Views::new(&ViewsSettings::new().memory_bytes(memory_bytes));
    let view = views.open(repo, &settings(Trust::Always, None)).expect("opened");
    let mut at = 0;
    for (what, hot) in [("anywhere", names.len()), ("nine of ten in a tenth of the refs", names.len() / 10)] {
        let mut look_up = || {
            at += 790_211;
            let range = if at % 10 == 0 { names.len() } else { hot };
            assert!(black_box(view.get(names[at % range].as_bstr()).expect("readable")).is_some());
        };
        each_of(LOOK_UPS, &mut look_up);
        let before = view.stats().misses;
        show(&format!("look-up, {what}"), each_of(LOOK_UPS, &mut look_up));
        println!("| of them read for | {:.1} % |", (view.stats().misses - before) as f64 * 100.0 / f64::from(LOOK_UPS));
    }
    for what in ["list all", "list all again"] {
        let took = each_of(1, || {
            let mut refs = 0;
            let mut listing = view.list(&ListOptions::default()).expect("readable");
            listing
                .each(&mut |_| {
                    refs += 1;
                    ControlFlow::Continue(())
                })
                .expect("readable");
            assert_eq!(refs, names.len());
        });
        show(what, took);
    }
    for what in ["refs by object", "refs by object again"] {
        show(what, each_of(1, || assert_eq!(view.pointing_at(&id(5)).expect("readable").len(), 1)));
    }
    let held = views.held_bytes();
    assert!(held <= memory_bytes + (64 << 10), "{held} of {memory_bytes}");
    println!("| held | {:.1} MiB |", held as f64 / f64::from(1 << 20));
}
