//! The way from the root to a step, as runs of numbers.

use std::ops::RangeInclusive;

use super::{Place, Tree};

/// The steps from the root to one of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trail {
    /// Segments in the order of the way, each with the last number of it that belongs to the way.
    cuts: Vec<(usize, RangeInclusive<u64>)>,
}

impl Trail {
    pub(super) fn to(tree: &Tree, end: Option<Place>) -> Self {
        let mut cuts = Vec::new();
        let mut at = end;
        while let Some(place) = at
            && let Some(segment) = tree.segments.get(place.segment)
        {
            cuts.push((place.segment, segment.first..=place.n));
            // Parents come before their children, so the way back ends.
            at = segment.parent.filter(|parent| parent.segment < place.segment);
        }
        cuts.reverse();
        Self { cuts }
    }

    /// The step that the way leads to.
    pub fn end(&self) -> Option<Place> {
        self.cuts.last().map(|(segment, numbers)| Place { segment: *segment, n: *numbers.end() })
    }

    /// The numbers of the steps, in runs, in the order of the way.
    pub fn ranges(&self) -> impl Iterator<Item = RangeInclusive<u64>> {
        self.cuts.iter().map(|(_, numbers)| numbers.clone())
    }

    /// Whether a step is on the way.
    pub fn holds(&self, place: Place) -> bool {
        let found = self.cuts.binary_search_by_key(&place.segment, |(segment, _)| *segment);
        found.is_ok_and(|at| self.cuts.get(at).is_some_and(|(_, numbers)| numbers.contains(&place.n)))
    }

    /// Whether a step with that number is on the way.
    pub fn has(&self, n: u64) -> bool {
        self.cuts.iter().any(|(_, numbers)| numbers.contains(&n))
    }

    /// How many steps there are.
    pub fn steps(&self) -> u64 {
        let count = |numbers: &RangeInclusive<u64>| numbers.end().saturating_sub(*numbers.start()).saturating_add(1);
        self.cuts.iter().map(|(_, numbers)| count(numbers)).fold(0, u64::saturating_add)
    }

    /// How often the user spoke on the way.
    pub(super) fn turns(&self, tree: &Tree) -> u64 {
        let count = |(at, numbers): &(usize, RangeInclusive<u64>)| {
            tree.segments.get(*at).map_or(0, |it| it.turns_to(*numbers.end()).count() as u64)
        };
        self.cuts.iter().map(count).fold(0, u64::saturating_add)
    }

    /// The last step that two ways share; none if they have nothing in common.
    pub fn parting(&self, other: &Self) -> Option<Place> {
        let shared = self.cuts.iter().zip(&other.cuts).take_while(|(ours, theirs)| ours.0 == theirs.0);
        let (ours, theirs) = shared.last()?;
        Some(Place { segment: ours.0, n: *ours.1.end().min(theirs.1.end()) })
    }
}
