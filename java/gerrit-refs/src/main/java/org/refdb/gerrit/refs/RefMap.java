package org.refdb.gerrit.refs;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.AbstractMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.eclipse.jgit.lib.Constants;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.lib.RefDatabase;

/**
 * A map of the refs visible to a user. Iterating it yields branches and tags, read on first use; looking up a name
 * finds any ref.
 */
final class RefMap extends AbstractMap<String, Ref> {
  private final RefDatabase visible;
  private Map<String, Ref> listed;

  RefMap(RefDatabase visible) {
    this.visible = visible;
  }

  RefDatabase visible() {
    return visible;
  }

  @Override
  public Ref get(Object name) {
    Ref known = listed == null ? null : listed.get((String) name);
    try {
      return known != null ? known : visible.exactRef((String) name);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Override
  public boolean containsKey(Object name) {
    return get(name) != null;
  }

  @Override
  public Set<Entry<String, Ref>> entrySet() {
    if (listed == null) {
      listed = list();
    }
    return listed.entrySet();
  }

  private Map<String, Ref> list() {
    Map<String, Ref> refs = new TreeMap<>();
    try {
      for (Ref ref : visible.getRefsByPrefix(Constants.R_HEADS, Constants.R_TAGS)) {
        refs.put(ref.getName(), ref);
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return refs;
  }
}
