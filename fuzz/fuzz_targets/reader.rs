#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| unforget_testkit::fuzzing::reader(bytes));
