package org.refdb.jgit;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.eclipse.jgit.lib.ReflogEntry;
import org.eclipse.jgit.lib.ReflogReader;
import org.refdb.engine.LogEntry;
import org.refdb.engine.EngineView;

/** Reads a ref's reflog as it is at the time of each call. */
final class RefdbReflogReader implements ReflogReader {
  private final EngineView view;
  private final String name;

  RefdbReflogReader(EngineView view, String name) {
    this.view = view;
    this.name = name;
  }

  @Override
  public ReflogEntry getLastEntry() throws IOException {
    return getReverseEntry(0);
  }

  @Override
  public List<ReflogEntry> getReverseEntries() throws IOException {
    return getReverseEntries(Integer.MAX_VALUE);
  }

  @Override
  public ReflogEntry getReverseEntry(int number) throws IOException {
    if (number < 0) {
      throw new IllegalArgumentException("a reflog has no entry " + number);
    }
    List<ReflogEntry> entries = read(number, 1);
    return entries.isEmpty() ? null : entries.get(0);
  }

  @Override
  public List<ReflogEntry> getReverseEntries(int max) throws IOException {
    return max <= 0 ? new ArrayList<>() : read(0, max);
  }

  private List<ReflogEntry> read(int skip, int max) throws IOException {
    List<ReflogEntry> entries = new ArrayList<>();
    for (LogEntry entry : view.log(name, skip, max)) {
      entries.add(RefdbReflogEntry.of(entry));
    }
    return entries;
  }
}
