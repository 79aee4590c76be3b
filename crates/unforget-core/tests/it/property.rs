//! Facts that hold for every input.

use proptest::prelude::*;
use unforget_testkit::generate;

use crate::support::{assert_accepted, history};

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn any_records_give_a_history_that_the_api_accepts(seed: u64, lines in 1_usize..40) {
        let bytes = generate::soup(seed, lines);
        assert_accepted(&history(&bytes), &format!("seed {seed}, {lines} lines"));
    }

    #[test]
    fn any_bytes_give_a_history_that_the_api_accepts(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        assert_accepted(&history(&bytes), "random bytes");
    }
}
