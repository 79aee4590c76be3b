//! Settings on the command line: one flag for each line of the table that has one.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use super::setting::{Kind, SETTINGS, Setting};

/// What was given on the command line.
#[derive(Debug, Default)]
pub(crate) struct Flags(Vec<(&'static str, String)>);

impl Flags {
    /// What was given for a setting.
    pub(crate) fn get(&self, setting: &Setting) -> Option<&str> {
        self.0.iter().find(|(name, _)| *name == setting.name).map(|(_, value)| value.as_str())
    }

    /// These flags and one more.
    #[cfg(test)]
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.0.push((name, value.to_owned()));
        self
    }
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        command.args(SETTINGS.iter().filter_map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |setting: &'static Setting| {
            // A list may be given in pieces.
            let values: Vec<&str> = matches.get_many::<String>(setting.name)?.map(String::as_str).collect();
            Some((setting.name, values.join(",")))
        };
        let flagged = SETTINGS.iter().filter(|setting| setting.flag.is_some());
        Ok(Self(flagged.filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn argument(setting: &'static Setting) -> Option<Arg> {
    let flag = setting.flag?.trim_start_matches('-');
    let (what, action) = match setting.kind {
        Kind::Number(..) | Kind::Fraction(..) => ("NUMBER", ArgAction::Set),
        Kind::ChoiceOrNumber(..) => ("HOW", ArgAction::Set),
        Kind::Choice(_) => ("WHO", ArgAction::Set),
        Kind::List => ("NAMES", ArgAction::Append),
        Kind::Path => ("PATH", ArgAction::Set),
        Kind::Address | Kind::Remote => ("URL", ArgAction::Set),
        Kind::SessionKey => ("KEY", ArgAction::Set),
        Kind::Text | Kind::Secret | Kind::Retention | Kind::Prices => ("TEXT", ArgAction::Set),
    };
    Some(Arg::new(setting.name).long(flag).value_name(what).action(action).help(setting.help))
}
