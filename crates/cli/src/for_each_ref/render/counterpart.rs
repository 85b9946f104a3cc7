use super::Renderer;
use crate::{
    failure::Result,
    for_each_ref::atom::{CounterpartForm, Direction},
    listing::Row,
};
use bstr::ByteSlice;

impl Renderer<'_> {
    /// Appends a field of a branch's counterpart.
    pub(super) fn counterpart(
        &mut self,
        direction: Direction,
        form: CounterpartForm,
        row: &Row<'_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let found = self.world.counterpart(direction, row.name);
        match (form, &found.tracking) {
            (CounterpartForm::RemoteName, _) => out.extend_from_slice(&found.remote),
            (CounterpartForm::RemoteRef, _) => out.extend_from_slice(&found.remote_ref),
            (_, None) => {}
            (CounterpartForm::Name(form), Some(name)) => self.name(form, name.as_bstr(), false, out)?,
            (CounterpartForm::Track { brackets }, Some(name)) => {
                let text = match self.world.ahead_behind(row.id, name.as_bstr())? {
                    None => "gone".to_owned(),
                    Some((0, 0)) => return Ok(()),
                    Some((ahead, 0)) => format!("ahead {ahead}"),
                    Some((0, behind)) => format!("behind {behind}"),
                    Some((ahead, behind)) => format!("ahead {ahead}, behind {behind}"),
                };
                let (open, close) = if brackets { ("[", "]") } else { ("", "") };
                out.extend_from_slice(format!("{open}{text}{close}").as_bytes());
            }
            (CounterpartForm::TrackShort, Some(name)) => {
                out.extend_from_slice(match self.world.ahead_behind(row.id, name.as_bstr())? {
                    None => b"",
                    Some((0, 0)) => b"=",
                    Some((_, 0)) => b">",
                    Some((0, _)) => b"<",
                    Some(_) => b"<>",
                });
            }
        }
        Ok(())
    }
}
