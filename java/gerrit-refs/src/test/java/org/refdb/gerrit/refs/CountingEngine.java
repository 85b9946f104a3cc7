package org.refdb.gerrit.refs;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.eclipse.jgit.internal.storage.file.FileRepository;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.RefDatabase;
import org.refdb.engine.RefHoldings;
import org.refdb.engine.RefStats;
import org.refdb.engine.VerifyReport;

/** Stands for the engine where a test counts opened databases, or wants it to refuse. JGit answers. */
final class CountingEngine implements RefEngine {
  int opened;
  int closed;
  int askedForTips;
  boolean refuses;

  @Override
  public RefDatabase open(FileRepository repository) throws IOException {
    opened++;
    if (refuses) {
      throw new IOException("not today");
    }
    FileRepository plain = new FileRepository(repository.getDirectory());
    return new ForwardingRefDatabase(plain.getRefDatabase()) {
      @Override
      public void close() {
        closed++;
        plain.close();
      }
    };
  }

  @Override
  public void forget(Path gitDir) {}

  @Override
  public Optional<RefStats> stats(Path gitDir) {
    return Optional.empty();
  }

  @Override
  public Map<Path, RefStats> stats() {
    return Map.of();
  }

  @Override
  public RefHoldings holdings() {
    return new RefHoldings(0, 0, 0, 0, 0, 0, 0, 0, 0);
  }

  @Override
  public boolean hint(Path gitDir) {
    return false;
  }

  @Override
  public List<Set<Ref>> tips(RefDatabase refs, List<? extends ObjectId> ids) throws IOException {
    askedForTips++;
    List<Set<Ref>> tips = new ArrayList<>();
    for (ObjectId id : ids) {
      tips.add(refs.getTipsWithSha1(id));
    }
    return tips;
  }

  @Override
  public VerifyReport verify(RefDatabase refs) {
    return new VerifyReport(0, List.of(), List.of());
  }

  @Override
  public void flush(RefDatabase refs) {}
}
