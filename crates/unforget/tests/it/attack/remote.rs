//! A remote whose operator reads, forges, replays and cuts what it keeps.
