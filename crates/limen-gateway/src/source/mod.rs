//! Where objects come from.

mod member;

pub use limen_api::source::{
    ConfigError, ConfigFiles, Hub, News, Running, Source, Within, read_objects,
};
pub use member::Member;
