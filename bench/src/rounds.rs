//! Measuring in turns.
//!
//! In every round each task is done once, every other round in the opposite order, and the median counts. A task that has taken
//! long enough in all is not repeated any more, so that one slow peer does not decide how often the others are measured.

use crate::contestant::{Contestant, Entrant, Reply, Side};

/// A task that took so long in all is not repeated, in seconds.
const ENOUGH: f64 = 40.0;

/// One thing to measure.
pub(crate) struct Task<'t> {
    pub(crate) name: String,
    pub(crate) slug: &'static str,
    pub(crate) side: Side,
    /// Does it once; the number of the round is handed in.
    pub(crate) work: Box<dyn FnMut(usize) -> Reply + 't>,
}

impl<'t> Task<'t> {
    /// A question to a contestant that runs.
    pub(crate) fn ask(contestant: &'t mut Contestant, request: impl Fn(usize) -> serde_json::Value + 't) -> Self {
        let Entrant { name, slug, side, .. } = contestant.entrant;
        Self { name: name.to_owned(), slug, side, work: Box::new(move |round| contestant.ask(&request(round))) }
    }
}

/// What came out of the rounds of a task.
#[derive(Debug, Clone)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) slug: &'static str,
    pub(crate) side: Side,
    /// All times, in seconds, from the shortest to the longest.
    pub(crate) times: Vec<f64>,
    /// The largest growth of the process.
    pub(crate) peak: Option<u64>,
    /// What it said it had found.
    pub(crate) count: Option<u64>,
    /// Why there is no figure.
    pub(crate) trouble: Option<String>,
}

impl Figure {
    /// The middle one of the times, in seconds; between the two in the middle if there are two.
    pub(crate) fn median(&self) -> Option<f64> {
        let upper = self.times.get(self.times.len() / 2)?;
        let lower = self.times.get(self.times.len().saturating_sub(1) / 2)?;
        Some((lower + upper) / 2.0)
    }
}

/// Does all tasks in turns.
pub(crate) fn interleaved(rounds: usize, tasks: Vec<Task<'_>>) -> Vec<Figure> {
    let mut running: Vec<(Task<'_>, Figure)> = tasks.into_iter().map(begin).collect();
    for round in 0..rounds {
        let each = |(task, figure): &mut (Task<'_>, Figure)| {
            if figure.trouble.is_none() && figure.times.iter().sum::<f64>() < ENOUGH {
                figure.add((task.work)(round));
            }
        };
        match round % 2 {
            0 => running.iter_mut().for_each(each),
            _ => running.iter_mut().rev().for_each(each),
        }
    }
    let mut figures: Vec<Figure> = running.into_iter().map(|(_, figure)| figure).collect();
    figures.iter_mut().for_each(|figure| figure.times.sort_by(f64::total_cmp));
    figures
}

fn begin(task: Task<'_>) -> (Task<'_>, Figure) {
    let (name, slug, side) = (task.name.clone(), task.slug, task.side);
    (task, Figure { name, slug, side, times: Vec::new(), peak: None, count: None, trouble: None })
}

impl Figure {
    fn add(&mut self, reply: Reply) {
        match (reply.seconds, reply.trouble) {
            (Some(seconds), None) => self.times.push(seconds),
            // A figure from the rounds before a failure would look as if there had been none.
            (_, trouble) => {
                self.times.clear();
                self.trouble = Some(trouble.unwrap_or_else(|| "no figure".to_owned()));
            }
        }
        self.peak = self.peak.max(reply.peak);
        self.count = reply.count.or(self.count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task<'t>(work: impl FnMut(usize) -> Reply + 't) -> Task<'t> {
        Task { name: "one".to_owned(), slug: "one", side: Side::Peer, work: Box::new(work) }
    }

    fn took(seconds: f64) -> Reply {
        Reply { seconds: Some(seconds), ..Reply::default() }
    }

    #[test]
    fn the_median_of_the_rounds_counts() {
        let figures = interleaved(3, vec![task(|round| took([3.0, 1.0, 2.0][round]))]);
        assert_eq!(figures[0].median(), Some(2.0));
        let figures = interleaved(2, vec![task(|round| took([3.0, 1.0][round]))]);
        assert_eq!(figures[0].median(), Some(2.0));
    }

    #[test]
    fn every_other_round_goes_the_other_way() {
        let order = std::cell::RefCell::new(String::new());
        let note = |name: char| {
            order.borrow_mut().push(name);
            took(0.1)
        };
        interleaved(2, vec![task(|_| note('a')), task(|_| note('b'))]);
        assert_eq!(order.into_inner(), "abba");
    }

    #[test]
    fn a_failure_leaves_no_figure_and_is_not_repeated() {
        let mut asked = 0;
        let work = |round: usize| {
            asked += 1;
            if round == 0 { took(1.0) } else { Reply::trouble("gone") }
        };
        let figures = interleaved(5, vec![task(work)]);
        assert_eq!((figures[0].median(), figures[0].trouble.as_deref(), asked), (None, Some("gone"), 2));
    }

    #[test]
    fn a_slow_task_is_not_repeated_for_ever() {
        let figures = interleaved(5, vec![task(|_| took(ENOUGH / 2.0)), task(|_| took(0.1))]);
        assert_eq!((figures[0].times.len(), figures[1].times.len()), (2, 5));
    }
}
