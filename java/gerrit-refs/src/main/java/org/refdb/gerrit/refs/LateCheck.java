package org.refdb.gerrit.refs;

import java.util.Collection;
import java.util.List;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.transport.PreUploadHook;
import org.eclipse.jgit.transport.PreUploadHookChain;
import org.eclipse.jgit.transport.UploadPack;
import org.eclipse.jgit.transport.UploadPack.ReachableCommitTipRequestValidator;
import org.eclipse.jgit.transport.UploadPack.RequestValidator;

/**
 * Checks the wants of a fetch on a connection that serves several commands, as SSH connections do.
 *
 * <p>JGit builds no set of the ids of all refs if its validator is {@link ReachableCommitTipRequestValidator}, and then
 * calls that validator for each wanted object. Just before, it calls {@link #onBeginNegotiateRound}, where another
 * validator is put in its place. Before a pack is sent, this class sets no map of advertised refs, so that JGit still
 * lists all visible refs to a client that asks for a list on such a connection.
 */
final class LateCheck implements PreUploadHook {
  private final RequestValidator check;
  private PreUploadHook all;
  private boolean begun;

  private LateCheck(RequestValidator check) {
    this.check = check;
  }

  /** Adds a check to the hooks of an upload, where it has no effect before {@link #begin}. */
  static LateCheck add(UploadPack upload, RequestValidator check) {
    LateCheck added = new LateCheck(check);
    added.all = PreUploadHookChain.newChain(List.of(upload.getPreUploadHook(), added));
    upload.setPreUploadHook(added.all);
    return added;
  }

  /**
   * Activates the check, unless the hooks of the upload were replaced after {@link #add}: nothing would then put the
   * check in the place of the validator that this method sets.
   */
  void begin(UploadPack upload) {
    if (upload.getPreUploadHook() == all) {
      begun = true;
      upload.setRequestValidator(new ReachableCommitTipRequestValidator());
    }
  }

  @Override
  public void onBeginNegotiateRound(UploadPack upload, Collection<? extends ObjectId> wants, int offered) {
    if (begun) {
      upload.setRequestValidator(check);
    }
  }

  @Override
  public void onEndNegotiateRound(
      UploadPack upload, Collection<? extends ObjectId> wants, int common, int notFound, boolean ready) {
    if (begun) {
      upload.setRequestValidator(new ReachableCommitTipRequestValidator());
    }
  }

  /**
   * Gives JGit the branches and tags that the user may see, unless JGit has a map of refs from a list that the client
   * asked for. JGit derives from the map which objects come first in the pack, and drops the map once the pack begins.
   */
  @Override
  public void onSendPack(
      UploadPack upload,
      Collection<? extends ObjectId> wants,
      Collection<? extends ObjectId> haves) {
    if (begun && upload.getAdvertisedRefs() == null) {
      upload.setAdvertisedRefs(WantedRefs.near(upload));
    }
  }
}
