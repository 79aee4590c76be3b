//! The whole store against a model of plain lists: random lives of sessions, two processes, and an index that is deleted,
//! damaged and half filled in between.
//!
//! The model knows what was done, in words of its own, and nothing of files, folds or SQL. After every few operations both are
//! asked the same: lists, names, searches by the index and by reading, histories. The failure that this guards against is
//! an answer that is right in each part and wrong as a whole, because two parts met in an order that nobody thought of.
//!
//! `PROPTEST_CASES` raises the number of lives.

use proptest::prelude::*;

use operation::Operation;
use world::World;

mod operation;
mod sessions;
mod vocabulary;
mod world;

/// How many lives are lived if nobody says.
const LIVES: u32 = 64;
/// How long a life is at most.
const OPERATIONS: usize = 24;
/// How many shorter lives are tried to explain a failure.
const SHRUNK: u32 = 4000;
/// After how many operations everything is compared.
const COMPARED_EVERY: usize = 4;

fn lives() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(LIVES)
}

/// What happens in a life; one operation a line if it has to be shown.
struct Life(Vec<Operation>);

impl std::fmt::Debug for Life {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|operation| write!(f, "\n    {operation:?}"))
    }
}

fn live(life: &Life) {
    let mut world = World::new();
    for (at, operation) in life.0.iter().enumerate() {
        world.apply(operation);
        if at % COMPARED_EVERY == COMPARED_EVERY - 1 {
            world.compare(at / COMPARED_EVERY % 2);
        }
    }
    // All questions at the end, so that what is found can be found in a short life, too.
    world.compare_everything();
    world.compare_histories();
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: lives(), max_shrink_iters: SHRUNK, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_happened_every_answer_is_what_was_done(
        life in prop::collection::vec(operation::anything(), 1..OPERATIONS).prop_map(Life)
    ) {
        live(&life);
    }
}
