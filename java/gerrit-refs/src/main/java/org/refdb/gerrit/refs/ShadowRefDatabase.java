package org.refdb.gerrit.refs;

import java.io.IOException;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.eclipse.jgit.api.PackRefsCommand;
import org.eclipse.jgit.internal.storage.file.FileRepository;
import org.eclipse.jgit.lib.BatchRefUpdate;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.ProgressMonitor;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.RefDatabase;
import org.eclipse.jgit.lib.RefRename;
import org.eclipse.jgit.lib.RefUpdate;
import org.eclipse.jgit.lib.ReflogReader;

/**
 * Returns JGit's answers and compares refdb's with them, so that a site can verify refdb before it relies on it.
 * Updates are made by JGit, and reflogs are not compared.
 */
final class ShadowRefDatabase extends RefDatabase {
  private final FileRepository vanilla;
  private final RefDatabase jgit;
  private final Comparison comparison;

  /**
   * @param vanilla the repository as JGit opens it; owned, and closed, by this object
   * @param engine refdb's view of the same repository; owned by the caller
   */
  ShadowRefDatabase(FileRepository vanilla, RefDatabase engine, ProjectState state) {
    this.vanilla = vanilla;
    this.jgit = vanilla.getRefDatabase();
    this.comparison = new Comparison(jgit, engine, state);
  }

  void closeVanilla() {
    vanilla.close();
  }

  @Override
  public Ref exactRef(String name) throws IOException {
    return comparison.ask("exactRef " + name, db -> db.exactRef(name));
  }

  @Override
  public Map<String, Ref> exactRef(String... names) throws IOException {
    return comparison.ask("exactRef of " + names.length + " names", db -> db.exactRef(names));
  }

  @Override
  public Ref firstExactRef(String... names) throws IOException {
    return comparison.ask("firstExactRef " + String.join(" ", names), db -> db.firstExactRef(names));
  }

  @Override
  public List<Ref> getRefs() throws IOException {
    return comparison.ask("getRefs", RefDatabase::getRefs);
  }

  @Override
  @Deprecated
  public Map<String, Ref> getRefs(String prefix) throws IOException {
    return comparison.ask("getRefs " + prefix, db -> db.getRefs(prefix));
  }

  @Override
  public List<Ref> getRefsByPrefix(String prefix) throws IOException {
    return comparison.ask("getRefsByPrefix " + prefix, db -> db.getRefsByPrefix(prefix));
  }

  @Override
  public List<Ref> getRefsByPrefix(String... prefixes) throws IOException {
    return comparison.ask("getRefsByPrefix " + String.join(" ", prefixes), db -> db.getRefsByPrefix(prefixes));
  }

  @Override
  public List<Ref> getRefsByPrefixWithExclusions(String include, Set<String> excludes) throws IOException {
    return comparison.ask(
        "getRefsByPrefix " + include + " without " + excludes,
        db -> db.getRefsByPrefixWithExclusions(include, excludes));
  }

  @Override
  public Set<Ref> getTipsWithSha1(ObjectId id) throws IOException {
    return comparison.ask("getTipsWithSha1 " + id.name(), db -> db.getTipsWithSha1(id));
  }

  @Override
  public boolean hasRefs() throws IOException {
    return comparison.ask("hasRefs", RefDatabase::hasRefs);
  }

  @Override
  public List<Ref> getAdditionalRefs() throws IOException {
    return comparison.ask("getAdditionalRefs", RefDatabase::getAdditionalRefs);
  }

  @Override
  public Ref peel(Ref ref) throws IOException {
    return comparison.ask("peel " + ref.getName(), db -> db.peel(ref));
  }

  @Override
  public boolean isNameConflicting(String name) throws IOException {
    return comparison.ask("isNameConflicting " + name, db -> db.isNameConflicting(name));
  }

  @Override
  public Collection<String> getConflictingNames(String name) throws IOException {
    return comparison.ask("getConflictingNames " + name, db -> db.getConflictingNames(name));
  }

  @Override
  public ReflogReader getReflogReader(String name) throws IOException {
    return jgit.getReflogReader(name);
  }

  @Override
  public ReflogReader getReflogReader(Ref ref) throws IOException {
    return jgit.getReflogReader(ref);
  }

  @Override
  public RefUpdate newUpdate(String name, boolean detach) throws IOException {
    return jgit.newUpdate(name, detach);
  }

  @Override
  public RefRename newRename(String from, String to) throws IOException {
    return jgit.newRename(from, to);
  }

  @Override
  public BatchRefUpdate newBatchUpdate() {
    return jgit.newBatchUpdate();
  }

  @Override
  public boolean performsAtomicTransactions() {
    return jgit.performsAtomicTransactions();
  }

  @Override
  public boolean hasVersioning() {
    return jgit.hasVersioning();
  }

  @Override
  public boolean hasFastTipsWithSha1() throws IOException {
    return jgit.hasFastTipsWithSha1();
  }

  @Override
  public void packRefs(ProgressMonitor monitor, PackRefsCommand command) throws IOException {
    jgit.packRefs(monitor, command);
  }

  @Override
  public void refresh() {
    jgit.refresh();
    comparison.refreshEngine();
  }

  @Override
  public void create() throws IOException {
    jgit.create();
  }

  @Override
  public void close() {
    vanilla.close();
  }
}
