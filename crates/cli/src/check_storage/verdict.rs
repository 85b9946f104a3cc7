//! The verdict: what was found in each format, in words and as an exit code.

use super::{
    judge::{self, Fault, What},
    load::{History, NAMES},
    repository::Format,
    scenes::{Kind, Wrong},
};

/// What was found about one format.
pub(super) struct Findings {
    pub(super) format: Format,
    /// Why refs of this format cannot be kept safely here: updates are lost, updates are made that had to be refused,
    /// or refdb refuses to write.
    pub(super) losses: Vec<String>,
    /// Details of the other findings, and errors that may occur on safe storage.
    notes: Vec<String>,
    /// Wrong answers by which no update was lost, such as values that were shown late, again after a later one, or when
    /// the ref did not have them.
    pub(super) late: Vec<String>,
    /// Why the format was not tested fully: steps and operations that ended with an error, a history that could not be
    /// judged, a host without an acknowledged read or write, or the early end of the test.
    pub(super) untested: Vec<String>,
}

/// The verdict, with its reason. A worse verdict is greater, and [`Verdict::NotTested`] is less than the verdicts on
/// faults that were seen.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Verdict {
    Safe,
    NotTested(String),
    Late(String),
    Unsafe(String),
}

impl Verdict {
    /// Returns 0 for safe, 1 for unsafe and late, and 2 for not tested.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Verdict::Safe => 0,
            Verdict::Late(_) | Verdict::Unsafe(_) => 1,
            Verdict::NotTested(_) => 2,
        }
    }

    pub(super) fn text(&self) -> String {
        match self {
            Verdict::Safe => "safe\n".into(),
            Verdict::Late(why) => format!("late: {why}\n"),
            Verdict::NotTested(why) => format!("not tested: {why}\n"),
            Verdict::Unsafe(why) => format!("unsafe: {why}\n"),
        }
    }
}

impl Findings {
    pub(super) fn new(format: Format) -> Self {
        Findings { format, losses: Vec::new(), notes: Vec::new(), late: Vec::new(), untested: Vec::new() }
    }

    /// Adds the scenes with wrong answers.
    pub(super) fn add_scenes(&mut self, wrong: Vec<Wrong>) {
        for scene in wrong {
            self.notes.push(scene.detail);
            match scene.kind {
                Kind::Loss => self.losses.push(scene.text),
                Kind::Late => self.late.push(scene.text),
                Kind::Failed => self.untested.push(scene.text),
            }
        }
    }

    /// Judges the history of a load, and adds the faults that are found.
    pub(super) fn add_load(&mut self, history: &History, labels: &[&str]) {
        for (name, operations) in NAMES.iter().zip(&history.of_names) {
            let Err(fault) = judge::judge(operations) else { continue };
            let text = format!("load: {name}: {}", text_of(&fault, labels));
            match fault {
                Fault::Lost { .. } => self.losses.push(text),
                Fault::Late { .. } | Fault::Back { .. } | Fault::Wrong { .. } | Fault::Contradicted { .. } => {
                    self.late.push(text);
                }
                Fault::Undecided => self.untested.push(text),
            }
        }
        for (host, label) in labels.iter().enumerate() {
            let late = history.of_names.iter().map(|operations| judge::lateness(operations, host));
            let (by, count) = late.fold((std::time::Duration::ZERO, 0), |sum, (by, n)| (sum.0.max(by), sum.1 + n));
            if count > 0 {
                let text =
                    format!("load: {label} showed {count} times a value that was replaced, up to {by:.1?} before");
                self.late.push(text);
            }
            let (reads, writes) = history.counts.get(&host).copied().unwrap_or_default();
            if reads == 0 || writes == 0 {
                self.untested.push(format!("load: {label} made {reads} reads and {writes} writes"));
            }
        }
        for (error, times) in &history.errors {
            // A list that is read while others write may have to be repeated on NFS 3.
            let reasons = if error.starts_with("list ") { &mut self.notes } else { &mut self.untested };
            reasons.push(format!("load: {times} times an error: {error}"));
        }
    }

    /// Returns whether something wrong was seen, rather than not tested.
    pub(super) fn has_fault(&self) -> bool {
        !self.losses.is_empty() || !self.late.is_empty()
    }

    /// Returns the verdict on this format.
    pub(super) fn verdict(&self) -> Verdict {
        let format = self.format;
        let about = |reasons: &[String]| format!("{format}: {}", reasons.first().map_or("", String::as_str));
        if !self.losses.is_empty() {
            Verdict::Unsafe(about(&self.losses))
        } else if !self.late.is_empty() {
            let extent = if self.untested.is_empty() { "" } else { " as far as was tested" };
            Verdict::Late(format!("no update was lost{extent}, but {}", about(&self.late)))
        } else if !self.untested.is_empty() {
            Verdict::NotTested(about(&self.untested))
        } else {
            Verdict::Safe
        }
    }

    /// Returns all findings, one on each line.
    pub(super) fn text(&self) -> String {
        let kinds =
            [("note", &self.notes), ("unsafe", &self.losses), ("late", &self.late), ("not tested", &self.untested)];
        let lines = kinds.iter().flat_map(|(kind, reasons)| reasons.iter().map(move |reason| (kind, reason)));
        lines.map(|(kind, reason)| format!("{}: {kind}: {reason}\n", self.format)).collect()
    }
}

fn text_of(fault: &Fault, labels: &[&str]) -> String {
    match fault {
        Fault::Lost { host, what: What::Write { old, .. } } => format!(
            "an acknowledged update was lost: {} changed the ref from {}, which it no longer had",
            labels[*host],
            shown(*old)
        ),
        Fault::Lost { host, what: What::Read(value) } => {
            format!("an acknowledged update was lost: at the end {} has {}", labels[*host], shown(*value))
        }
        Fault::Late { host, value, by } => {
            format!("{} showed {} {by:.1?} after its replacement was acknowledged", labels[*host], shown(*value))
        }
        Fault::Back { host, value } => format!("{} showed {} again after a later one", labels[*host], shown(*value)),
        Fault::Wrong { host, value: judge::NONE } => format!("{} did not show a ref that exists", labels[*host]),
        Fault::Wrong { host, value } => format!("{} showed value {value} when the ref did not have it", labels[*host]),
        Fault::Contradicted { host, value } => {
            format!("another value was shown before {} changed the ref from {}", labels[*host], shown(*value))
        }
        Fault::Undecided => "too many updates have an unknown outcome or overlap".into(),
    }
}

fn shown(value: judge::Value) -> String {
    if value == judge::NONE { "no value".into() } else { format!("value {value}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_finding_decides() {
        let mut findings = Findings::new(Format::Files);
        assert_eq!(findings.verdict(), Verdict::Safe);
        findings.untested.push("nothing".into());
        assert_eq!(findings.verdict().exit_code(), 2);
        findings.add_scenes(vec![Wrong { text: "scene A".into(), detail: String::new(), kind: Kind::Late }]);
        assert_eq!(
            findings.verdict(),
            Verdict::Late("no update was lost as far as was tested, but files: scene A".into())
        );
        findings.add_scenes(vec![Wrong { text: "scene B".into(), detail: String::new(), kind: Kind::Loss }]);
        assert_eq!(findings.verdict().text(), "unsafe: files: scene B\n");
        assert_eq!(findings.text().lines().count(), 5);
        assert!(Verdict::Unsafe(String::new()) > Verdict::Late(String::new()));
    }

    #[test]
    fn a_host_that_did_nothing_proves_nothing() {
        let mut findings = Findings::new(Format::Reftable);
        findings.add_load(&History::default(), &["here", "there"]);
        assert_eq!(findings.verdict().text(), "not tested: reftable: load: here made 0 reads and 0 writes\n");
    }

    /// Regression: the writer was said to have shown the value that it replaced.
    #[test]
    fn a_writer_is_not_blamed_for_what_another_host_showed() {
        let text = text_of(&Fault::Contradicted { host: 0, value: 1 }, &["here", "there"]);
        assert_eq!(text, "another value was shown before here changed the ref from value 1");
    }
}
