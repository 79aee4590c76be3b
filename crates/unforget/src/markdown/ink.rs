//! How characters look: the few styles that Markdown asks for, as terminal sequences.
//!
//! Nothing else in this part of the program makes an escape sequence, so all of them are known to be ours.

use anstyle::AnsiColor;

use super::Style;

/// How a character is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Ink {
    pub(super) bold: bool,
    pub(super) italic: bool,
    pub(super) underlined: bool,
    pub(super) struck: bool,
    pub(super) dim: bool,
    pub(super) code: bool,
}

impl Ink {
    pub(super) const DIM: Self =
        Self { bold: false, italic: false, underlined: false, struck: false, dim: true, code: false };

    /// The sequence that switches it on.
    pub(super) fn sequence(self) -> impl std::fmt::Display {
        self.style().render()
    }

    fn style(self) -> anstyle::Style {
        let style = if self.code { AnsiColor::Cyan.on_default() } else { anstyle::Style::new() };
        let when = |on: bool, effect| if on { effect } else { anstyle::Effects::new() };
        style.effects(
            when(self.bold, anstyle::Effects::BOLD)
                | when(self.italic, anstyle::Effects::ITALIC)
                | when(self.underlined, anstyle::Effects::UNDERLINE)
                | when(self.struck, anstyle::Effects::STRIKETHROUGH)
                | when(self.dim, anstyle::Effects::DIMMED),
        )
    }
}

/// Text in an ink, by itself.
pub(super) fn inked(text: &str, ink: Ink, style: Style) -> String {
    match style {
        Style::Plain => text.to_owned(),
        Style::Coloured => format!("{}{text}{}", ink.style().render(), anstyle::Reset.render()),
    }
}
