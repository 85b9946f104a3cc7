package org.refdb.gerrit.refs;

import java.io.IOException;
import java.util.List;
import java.util.Map;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.RefDatabase;
import org.eclipse.jgit.lib.RefRename;
import org.eclipse.jgit.lib.RefUpdate;
import org.eclipse.jgit.lib.ReflogReader;

/** Forwards the abstract methods, for tests that change one answer. */
class ForwardingRefDatabase extends RefDatabase {
  private final RefDatabase to;

  ForwardingRefDatabase(RefDatabase to) {
    this.to = to;
  }

  @Override
  public void create() throws IOException {
    to.create();
  }

  @Override
  public void close() {
    to.close();
  }

  @Override
  public boolean isNameConflicting(String name) throws IOException {
    return to.isNameConflicting(name);
  }

  @Override
  public RefUpdate newUpdate(String name, boolean detach) throws IOException {
    return to.newUpdate(name, detach);
  }

  @Override
  public RefRename newRename(String from, String name) throws IOException {
    return to.newRename(from, name);
  }

  @Override
  public Ref exactRef(String name) throws IOException {
    return to.exactRef(name);
  }

  @Override
  public ReflogReader getReflogReader(Ref ref) throws IOException {
    return to.getReflogReader(ref);
  }

  @Override
  @Deprecated
  public Map<String, Ref> getRefs(String prefix) throws IOException {
    return to.getRefs(prefix);
  }

  @Override
  public List<Ref> getAdditionalRefs() throws IOException {
    return to.getAdditionalRefs();
  }

  @Override
  public Ref peel(Ref ref) throws IOException {
    return to.peel(ref);
  }
}
