use super::{Plan, Step};

/// Reduces a plan to a smaller one for which `fails` still returns true.
///
/// This is delta debugging (ddmin), which leaves out halves, then quarters and so on, down to single items. The steps
/// are reduced first, then the parts of the repository, then for each remaining step the environment, the arguments and
/// the input. The global options of a step are left out all together or not at all. This is repeated until nothing more
/// can be left out.
pub fn minimise(plan: &Plan, fails: &mut dyn FnMut(&Plan) -> bool) -> Plan {
    let mut plan = plan.clone();
    loop {
        let before = size(&plan);
        plan.steps = shorten(&plan.steps, &mut |steps| fails(&Plan { steps: steps.to_vec(), ..plan.clone() }));
        plan.parts = shorten(&plan.parts, &mut |parts| fails(&Plan { parts: parts.to_vec(), ..plan.clone() }));
        for turn in 0..plan.steps.len() {
            let with = |step: Step| {
                let mut changed = plan.clone();
                changed.steps[turn] = step;
                changed
            };
            let step = plan.steps[turn].clone();
            // A global option and its value go together, so either all global options are left out or none.
            let without = Step { globals: Vec::new(), ..step.clone() };
            let step = if !step.globals.is_empty() && fails(&with(without.clone())) { without } else { step };
            let environment = shorten(&step.environment, &mut |environment| {
                fails(&with(Step { environment: environment.to_vec(), ..step.clone() }))
            });
            let step = Step { environment, ..step };
            let words = shorten(&step.words, &mut |words| fails(&with(Step { words: words.to_vec(), ..step.clone() })));
            let step = Step { words, ..step };
            let input = shorten(&step.input, &mut |input| fails(&with(Step { input: input.to_vec(), ..step.clone() })));
            plan.steps[turn] = Step { input, ..step };
        }
        if size(&plan) == before {
            return plan;
        }
    }
}

fn size(plan: &Plan) -> usize {
    let step = |step: &Step| 1 + step.globals.len() + step.environment.len() + step.words.len() + step.input.len();
    plan.parts.len() + plan.steps.iter().map(step).sum::<usize>()
}

/// Returns a minimal part of the list for which `fails` still returns true, as it does for the whole list.
fn shorten<T: Clone>(items: &[T], fails: &mut dyn FnMut(&[T]) -> bool) -> Vec<T> {
    let mut kept = items.to_vec();
    let mut chunk = kept.len().div_ceil(2).max(1);
    while !kept.is_empty() {
        let mut start = 0;
        let before = kept.len();
        while start < kept.len() {
            let end = (start + chunk).min(kept.len());
            let rest = [&kept[..start], &kept[end..]].concat();
            if fails(&rest) {
                kept = rest;
            } else {
                start = end;
            }
        }
        if chunk > 1 {
            chunk = chunk.div_ceil(2);
        } else if kept.len() == before {
            break;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_cut_down_to_what_is_needed() {
        for needed in [&[0][..], &[99], &[3, 4, 77], &[]] {
            let all: Vec<usize> = (0..100).collect();
            let mut tries = 0;
            let kept = shorten(&all, &mut |items| {
                tries += 1;
                needed.iter().all(|item| items.contains(item))
            });
            assert_eq!(kept, needed);
            assert!(tries < 200, "{tries} tries for {needed:?}");
        }
    }
}
