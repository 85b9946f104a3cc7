//! Says what a change of a series means in the light of earlier ones.

/// The change of a cost from one level of a series to the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// The cost afterwards divided by the cost before.
    pub ratio: f64,
    /// The lower bound of the ratio.
    pub low: f64,
    /// The upper bound of the ratio.
    pub high: f64,
}

/// Returns the index of the earlier step that the last step takes back, so that the cost is again what it was before
/// that step; the latest if there are several. The cost counts as the same if its interval permits a difference within
/// `tolerance`, a fraction, and the measured difference is within the tolerance or at most a quarter of the last step.
pub fn taken_back(steps: &[Step], tolerance: f64) -> Option<usize> {
    let (last, earlier) = steps.split_last()?;
    let margin = tolerance.ln_1p();
    let [mut whole, mut low, mut high] = [last.ratio, last.low, last.high].map(f64::ln);
    for (place, step) in earlier.iter().enumerate().rev() {
        whole += step.ratio.ln();
        low += step.low.ln();
        high += step.high.ln();
        let is_level = low <= margin && high >= -margin;
        let opposes = (step.ratio > 1.0) != (last.ratio > 1.0);
        // A wide interval easily permits that nothing has changed, so the measured difference must also be within the
        // tolerance or a quarter of the last step.
        if opposes && is_level && whole.abs() <= margin.max(last.ratio.ln().abs() / 4.0) {
            return Some(place);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(ratios: &[f64]) -> Vec<Step> {
        ratios.iter().map(|ratio| Step { ratio: *ratio, low: ratio * 0.99, high: ratio * 1.01 }).collect()
    }

    #[test]
    fn a_step_that_went_away_is_the_latest_one_that_is_undone() {
        assert_eq!(taken_back(&steps(&[1.1, 1.0 / 1.1]), 0.01), Some(0));
        assert_eq!(taken_back(&steps(&[1.3, 1.1, 0.91]), 0.01), Some(1));
        assert_eq!(taken_back(&steps(&[1.1, 1.2, 1.0 / 1.32]), 0.01), Some(0), "one step takes back two");
        assert_eq!(taken_back(&steps(&[0.5, 2.0]), 0.01), Some(0), "an improvement can be lost again");
    }

    #[test]
    fn a_step_in_the_same_direction_or_of_another_size_takes_nothing_back() {
        for ratios in [&[][..], &[1.1], &[1.1, 1.1], &[1.5, 0.9], &[1.05, 0.8]] {
            assert_eq!(taken_back(&steps(ratios), 0.01), None, "{ratios:?}");
        }
        let vague = Step { ratio: 0.8, low: 0.5, high: 1.2 };
        assert_eq!(taken_back(&[steps(&[1.6])[0], vague], 0.01), None, "an interval that is wide proves nothing");
    }
}
